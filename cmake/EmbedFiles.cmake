# cmake -DOUT=embedded_files.cpp -DFILES=a;b -P EmbedFiles.cmake
#   writes the definition of inferno::service::embedded_files() with the bytes of FILES.
set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "('[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+','[^']+',)" "\\1\n"
    bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${index}[] = {\n${bytes}'\\0'};\n")
  string(APPEND entries "    {\"${name}\", {kFile${index}, sizeof(kFile${index}) - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUT}" "#include \"server/service/embedded_files.hpp\"

namespace inferno::service {
namespace {

${arrays}
constexpr EmbeddedFile kFiles[] = {
${entries}};

}  // namespace

std::span<const EmbeddedFile> embedded_files() {
  return kFiles;
}

}  // namespace inferno::service
")
