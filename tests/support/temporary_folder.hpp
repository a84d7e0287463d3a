#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace inferno::test {

/// A fresh folder that goes away with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// All bytes of a file.
std::string read_file(const std::filesystem::path& path);

}  // namespace inferno::test
