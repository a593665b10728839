# cmake -DOUT=FILE.cpp -DFILE=TEXT -DHEADER=HPP -DNAME=NAMESPACE::ARRAY -P embed_lines.cmake: embeds the lines of TEXT
# as a null-terminated array of strings. TEXT must not contain quotes or backslashes.
file(READ ${FILE} text)
string(REGEX REPLACE "([^\n]+)\n" "    \"\\1\",\n" lines "${text}")
string(REGEX MATCH "^(.*)::([a-z_]+)$" _ ${NAME})
file(WRITE ${OUT}.new "#include \"${HEADER}\"\n\nnamespace ${CMAKE_MATCH_1} {\n\nconst char* const ${CMAKE_MATCH_2}[] = {\n${lines}    nullptr};\n\n}\n")
file(RENAME ${OUT}.new ${OUT})
