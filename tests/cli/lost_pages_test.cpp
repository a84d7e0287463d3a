#include "common/lost_pages.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "platform/mapped_file.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

TEST(LostPages, AShortenedFileIsOneLineAndNoBusError) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "mapped";
  std::ofstream(path) << std::string(1 << 16, 'x');
  const auto read_what_is_gone = [&path] {
    cli::report_lost_pages();
    const auto file = MappedFile::open(path, true);
    std::filesystem::resize_file(path, 0);
    const volatile std::byte last = file.bytes().back();
    (void)last;
  };
  EXPECT_EXIT(read_what_is_gone(), testing::ExitedWithCode(1), "error: a mapped file lost pages");
}

}  // namespace
}  // namespace inferno::test
