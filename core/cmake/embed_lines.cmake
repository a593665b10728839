# cmake -DOUT=FILE.cpp -DFILE=TEXT -DHEADER=HPP -DNAME=NAMESPACE::ARRAY -P embed_lines.cmake: the lines of TEXT, which has
# neither quotes nor backslashes, as an array of strings that ends with a null.
file(READ ${FILE} text)
string(REGEX REPLACE "([^\n]+)\n" "    \"\\1\",\n" lines "${text}")
string(REGEX MATCH "^(.*)::([a-z_]+)$" _ ${NAME})
file(WRITE ${OUT}.new "#include \"${HEADER}\"\n\nnamespace ${CMAKE_MATCH_1} {\n\nconst char* const ${CMAKE_MATCH_2}[] = {\n${lines}    nullptr};\n\n}\n")
file(RENAME ${OUT}.new ${OUT})
