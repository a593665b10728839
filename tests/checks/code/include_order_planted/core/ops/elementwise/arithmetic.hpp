// What planted.hpp includes.
