#!/usr/bin/env bash
# consume.sh installed|shared|pkg-config|readme|subdirectory|fetchcontent|deb|core FIT_BUILD_TREE: a user's project, made anew,
# finds fit in one of seven ways, or fit::core alone, is built and run. CXX and CXXFLAGS come from the environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
way=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

top=$here/../..

# Without a build type, fit's own sources are optimised; with Debug they are not.
check_optimised() {
  local commands
  commands=$(ninja -C "$stage/build" -t commands | grep -E -- "-c .*/core/tensor/tensor.cpp")
  grep -qF -- " -O3 -DNDEBUG" <<<"$commands" || { echo "$1 without a build type compiles fit without optimisation"; exit 1; }
  cmake -DCMAKE_BUILD_TYPE=Debug "$stage/build" >/dev/null
  commands=$(ninja -C "$stage/build" -t commands | grep -E -- "-c .*/core/tensor/tensor.cpp")
  if grep -qE -- " -O[123]" <<<"$commands"; then
    echo "$1 with Debug compiles fit with optimisation"
    exit 1
  fi
  cmake -DCMAKE_BUILD_TYPE= "$stage/build" >/dev/null
}

configure() { cmake -S "$here/$way" -B "$stage/build" -G Ninja "$@"; }

# Building the libraries once more would take minutes: those that are there take the place of those in the folder $2, and
# the two commands that are the consumer's own are run.
build_with_library_of() {
  cp "$1"/libfit_*.a "$2"
  cd "$stage/build"
  eval "$(ninja -t commands consumer | grep -F main.cpp.o)"
  ./consumer >"$stage/said"
}

# The package is found below the prefix $1, which has the licence and the documents, too.
build_with_prefix() {
  cmake -S "$here/installed" -B "$stage/build" -G Ninja "-DCMAKE_PREFIX_PATH=$1"
  cmake --build "$stage/build" --target consumer
  "$stage/build/consumer" >"$stage/said"
  cmp "$top/LICENSE" "$1"/share/doc/*/LICENSE
  for page in "$top"/docs/*.md "$top"/docs/*/*.md; do
    cmp "$page" "$(echo "$1"/share/doc/*/docs)/${page#"$top"/docs/}"
  done
}

# A program with the checked containers of libstdc++ would not link with a library without them: configuring says so, and
# so does the compiler where CMake does not know.
refuses_other_containers() {
  if cmake -S "$here/installed" -B "$stage/checked" -G Ninja "-DCMAKE_PREFIX_PATH=$1" -DCMAKE_CXX_FLAGS=-D_GLIBCXX_DEBUG \
    >"$stage/refused" 2>&1 || ! grep -q "compiled without _GLIBCXX_DEBUG" <(tr -s ' \n' ' ' <"$stage/refused"); then
    cat "$stage/refused"
    exit 1
  fi
  if "$CXX" -std=c++17 -fsyntax-only -D_GLIBCXX_DEBUG "-I$1/include" "$here/main.cpp" 2>"$stage/refused" ||
    ! grep -q "error.*compiled without _GLIBCXX_DEBUG" "$stage/refused"; then
    head -20 "$stage/refused"
    exit 1
  fi
  # Likewise a program with the other standard library.
  if "$CXX" -std=c++17 -fsyntax-only -DFIT_LIBCXX "-I$1/include" "$here/main.cpp" 2>"$stage/refused" ||
    ! grep -q "error.*this fit was compiled with libc++" "$stage/refused"; then
    head -20 "$stage/refused"
    exit 1
  fi
}

# libfit.so in the build tree $2, of the objects that are in the archives of $1: they are those of a shared library, too.
link_shared() {
  local name word words=() objects="-Wl,--whole-archive $(echo "$1"/libfit_*.a) -Wl,--no-whole-archive"
  cd "$2"
  name=$(ninja -t targets all | grep -oE '^libfit\.so\.[0-9]+\.[0-9]+\.[0-9]+')
  for word in $(ninja -t commands "$name" | grep -F -- "-o $name " | sed 's/^: && //; s/ && :.*//'); do
    [[ $word != *.o ]] || word=$objects objects=
    words+=($word)
  done
  "${words[@]}"
  ln -s "$name" "${name%.*}"
  ln -s "${name%.*}" libfit.so
}

# All of a layer is linked with those below it, and with none above.
links_alone() {
  local tree=$1
  shift
  printf 'int main() {}\n' | "$CXX" ${CXXFLAGS:-} -x c++ - -x none -Wl,--whole-archive "${@/#/$tree/libfit_}" \
    -Wl,--no-whole-archive -lopenblas -lz -pthread -o "$stage/whole" || { echo "$* needs what is above it"; exit 1; }
}

case $way in
  core)  # tensors and attention alone
    links_alone "$2" core.a
    links_alone "$2" nn.a core.a
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    configure "-DCMAKE_PREFIX_PATH=$stage/prefix"
    ! ninja -C "$stage/build" -t commands consumer | grep -E 'libfit_(nn|hub|plot)' || { echo "it links what is above core"; exit 1; }
    cmake --build "$stage/build" --target consumer
    ! nm -C "$stage/build/consumer" | grep -E 'fit::(nn|optim|data|plot)::|fit::Trainer' ||
      { echo "its symbols are not of core alone"; exit 1; }
    # core is configured with its tests where there is nothing else.
    mkdir "$stage/alone"
    cp -r "$top"/{CMakeLists.txt,core,tests} "$stage/alone"
    cmake -S "$stage/alone" -B "$stage/alone/build" -G Ninja -DFIT_NN=OFF -DFIT_INSTALL=OFF >"$stage/said"
    ninja -C "$stage/alone/build" -t query fit_tests >/dev/null
    [ "$("$stage/build/consumer")" = "gradient 40, attention [1, 2, 3, 4]" ]
    exit
    ;;
  shared)
    cmake -S "$top" -B "$stage/fit" -G Ninja -DBUILD_SHARED_LIBS=ON -DFIT_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
    (link_shared "$2" "$stage/fit")
    "$here/exported.sh" "$stage/fit/libfit.so" "$top" "$2"
    cmake --install "$stage/fit" --prefix "$stage/prefix" >/dev/null
    way=installed
    CXXFLAGS="${CXXFLAGS:-} -fvisibility=hidden -fvisibility-inlines-hidden" build_with_prefix "$stage/prefix"
    readelf -d "$stage/build/consumer" | grep -F "libfit.so.$(sed -n 's/.*VERSION_STRING "\(.*\)\..*"/\1/p' "$top/core/include/fit/base/version.hpp")]"
    ;;
  installed)
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    build_with_prefix "$stage/prefix"
    refuses_other_containers "$stage/prefix"
    ;;
  deb)
    command -v dpkg-deb >/dev/null || { echo "dpkg-deb is missing: skipped"; exit 77; }
    (cd "$2" && cpack -G DEB -B "$stage" >/dev/null)
    package=$(echo "$stage"/*.deb)
    version=$(sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' "$top/core/include/fit/base/version.hpp")
    for field in "Package: libfit-dev" "Version: $version"; do
      dpkg-deb -f "$package" | grep -qxF "$field" || { echo "$package has not '$field'"; exit 1; }
    done
    # What a program needs that is linked with it, and what <fit/tensor/xtensor.hpp> includes.
    depends=$(dpkg-deb -f "$package" Depends)
    for need in libopenblas-dev zlib1g-dev libxtensor-dev; do
      grep -qw -- "$need" <<<"$depends" || { echo "it does not depend on $need: $depends"; exit 1; }
    done
    dpkg-deb -x "$package" "$stage/root"
    build_with_prefix "$stage/root/usr"
    ;;
  pkg-config)
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    pc=$(find "$stage/prefix" -name fit.pc)
    read -ra flags < <(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs fit)
    # shellcheck disable=SC2086
    "$CXX" -std=c++17 ${CXXFLAGS:-} "$here/main.cpp" "${flags[@]}" -o "$stage/consumer"
    "$stage/consumer" >"$stage/said"
    if grep -q 'libfit_mpi' "$2/build.ninja"; then  # this machine has MPI
      ninja -C "$2" -t commands fit >"$stage/commands"  # a pipe would end ninja at the first line that grep finds
      grep -q 'libfit_mpi' "$stage/commands" || { echo "--target fit leaves out fit_mpi, which is installed"; exit 1; }
      printf '#include <fit/mpi.hpp>\nint main() { const fit::dist::Mpi mpi; return fit::dist::world().size() - 1; }\n' >"$stage/ranks.cpp"
      read -ra flags < <(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs fit_mpi)
      "$CXX" -std=c++17 ${CXXFLAGS:-} "$stage/ranks.cpp" "${flags[@]}" -o "$stage/ranks"
    fi
    ;;
  readme)  # its three lines, except that nothing is built once more
    mapfile -t lines < <(awk '/^Install fit, and link/ { near = 1 } near && /^```/ { if (inside) exit; inside = 1; next } inside' "$top/README.md")
    [[ ${#lines[@]} == 3 && ${lines[0]} == *"--target fit && cmake --install build/release --prefix ~/.local" ]]
    top=$(realpath "$top")
    export HOME=$stage
    cmake --install "$2" --prefix ~/.local >/dev/null
    mkdir "$stage/folder"
    ln -s "$top/examples" "$stage/folder"
    cd "$stage/folder"
    eval "${lines[1]}"
    eval "${lines[2]}" | tee "$stage/said"
    grep -q 'reversed:' "$stage/said"
    # `--target fit` builds all that is installed, here, and on a machine without MPI.
    cmake -S "$top" -B "$stage/alone" -G Ninja -DFIT_TESTS=OFF -DFIT_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON >/dev/null
    for tree in "$2" "$stage/alone"; do
      ninja -C "$tree" -t commands fit >"$stage/commands"
      grep -ohrE 'libfit_[a-z]+\.a' --include=cmake_install.cmake "$tree" | sort -u >"$stage/libraries"
      grep -q libfit_core "$stage/libraries"
      while read -r library; do
        grep -qF "$library" "$stage/commands" || { echo "--target fit leaves out $library, which is installed" && exit 1; }
      done <"$stage/libraries"
    done
    ! grep libfit_mpi "$stage/libraries"
    exit
    ;;
  subdirectory)
    configure "-DFIT_SOURCE_DIR=$top"
    check_optimised add_subdirectory
    build_with_library_of "$2" "$stage/build/fit/"
    ;;
  fetchcontent)
    tar -cf "$stage/fit.tar" -C "$top" CMakeLists.txt LICENSE README.md CHANGELOG.md CONTRIBUTING.md core nn docs
    configure "-DFIT_ARCHIVE=$stage/fit.tar"
    check_optimised FetchContent
    build_with_library_of "$2" "$stage/build/_deps/fit-build/"
    ;;
esac
cat "$stage/said"
diff - "$stage/said" <<'END' || { echo "these lines should have been others"; exit 1; }
gradient 40
recorded 0
caught Error
caught FileError
a Net 1
quantised list.0 out
END
