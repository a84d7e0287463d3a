// Exit codes, help, and what goes where: 0 done, 1 the work failed, 2 bad usage; results on stdout, the rest
// on stderr.

#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "cli/program.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::vector<std::string> kCommands = {"generate", "chat",   "render", "bench",    "verify", "inspect",
                                            "tokenize", "logits", "synth",  "backends", "serve"};

TEST(Usage, EveryCommandHasHelpWithExamples) {
  for (const auto& command : kCommands) {
    const auto ran = run_inferno({command, "--help"});
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_THAT(ran.out, HasSubstr("Examples:")) << command;
    EXPECT_THAT(ran.out, HasSubstr("inferno " + command)) << command;
  }
  const auto ran = run_inferno({"--help"});
  EXPECT_EQ(run_inferno({"help"}).out, ran.out);
  EXPECT_EQ(run_inferno({"help", "serve"}).out, run_inferno({"serve", "--help"}).out);
  EXPECT_EQ(run_inferno({"help", "everything"}).code, 2);
  EXPECT_EQ(ran.code, 0);
  for (const auto& command : kCommands) EXPECT_THAT(ran.out, HasSubstr(command));
}

TEST(Usage, Version) {
  const auto ran = run_inferno({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, testing::MatchesRegex("inferno [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Usage, QuietLeavesWarningsAlone) {
  EXPECT_THAT(run_inferno({"generate", "-n", "1", "--backend", "pool"}).err, HasSubstr("info: "));
  EXPECT_EQ(run_inferno({"generate", "-n", "1", "--backend", "pool", "-q"}).err, "");
  EXPECT_THAT(run_inferno({"generate", "-n", "1", "--ctx", "2000", "-q"}).err, HasSubstr("warning: "));
}

TEST(Usage, APromptWithoutItsOptionIsToldWhereItGoes) {
  constexpr const char* kHint = "(a prompt goes behind -p)";
  EXPECT_THAT(run_inferno({"generate", "Once upon"}).err, HasSubstr(kHint));
  EXPECT_THAT(run_inferno({"generate", "--no-such-option"}).err, Not(HasSubstr(kHint)));
  EXPECT_THAT(run_inferno({"bench", "5"}).err, Not(HasSubstr(kHint)));  // its --prompt is a number
}

TEST(Usage, BadUsageIsExitCode2AndSaysSoOnStderr) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"sing"},
      {"generate", "--no-such-option"},
      {"generate", "-n", "-1"},
      {"generate", "-n", "many"},
      {"generate", "-n", "010"},
      {"generate", "-n", ""},
      {"generate", "-n", "5e3"},
      {"generate", "--seed", "18446744073709551616", "-n", "1"},
      {"generate", "--seed", "-1", "-n", "1"},
      {"generate", "--temp=", "--seed", "1", "-n", "1"},
      {"generate", "-m", "", "-n", "1"},
      {"generate", "--ids", "", "-n", "1"},
      {"generate", "--threads", "1025", "-n", "1"},
      {"generate", "--threads", "4294967295", "--backend", "pool", "-n", "1"},
      {"generate", "--ctx", "4294967295", "-n", "1"},
      {"inspect", ""},
      {"inspect", "-m", "one.gguf", "two.gguf"},
      {"bench", "--ladder", "--backend", "simd"},
      {"generate", "--kv", "large", "-n", "1"},
      {"generate", "--backend", "abacus", "-n", "1"},
      {"generate", "--temp", "-1", "-n", "1"},
      {"generate", "--temp", "nan", "-n", "1"},
      {"generate", "--top-p", "1.5", "-n", "1"},
      {"generate", "--logit-bias", "five", "-n", "1"},
      {"generate", "--logit-bias", "999999=1", "-n", "1"},
      {"generate", "--stop", "", "-n", "1"},
      {"generate", "--steps-per-submit", "0", "-n", "1"},
      {"generate", "--ctx", "2", "-n", "1"},
      {"tokenize", "--decode", "1,x"},
      {"tokenize", "--decode", "99999999"},
      {"logits", "--ids", "1,2"},
      {"logits", "--ids", "1,2", "--out", ""},
      {"generate", "--top-k", "3000000000", "-n", "1"},
      {"generate", "--logit-bias", "5=+-1", "-n", "1"},
      {"logits", "--ids", "", "--out", "/tmp/never.npy"},
      {"logits", "--ids", "-4", "--out", "/tmp/never.npy"},
      {"synth", "--preset", "huge", "/tmp/never.gguf"},
      {"synth", "--type", "q9", "/tmp/never.gguf"},
      {"verify", "--backend", "abacus"},
      {"bench", "--backend", "abacus"},
      {"chat", "--backend", "abacus"},
      {"chat", "--temp", "-1"},
      {"render"},
  };
  for (const auto& arguments : bad) {
    const auto ran = run_inferno(arguments);
    EXPECT_EQ(ran.code, 2) << testing::PrintToString(arguments) << ran.err;
    EXPECT_THAT(ran.out, IsEmpty()) << testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, testing::Not(IsEmpty())) << testing::PrintToString(arguments);
  }
}

TEST(Usage, WorkThatFailsIsExitCode1WithOneLine) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"generate", "-m", "/no/such/file.gguf"},
                                             {"inspect", "/no/such/file.gguf"},
                                             {"inspect", "/"},
                                             {"logits", "--ids", "1", "--out", "/no/such/folder/x.npy"},
                                             {"generate", "--backend", "vulkan", "--device", "99", "-n", "1"},
                                             {"synth", "--preset", "tiny", "/no/such/folder/x.gguf"}}) {
    const auto ran = run_inferno(arguments);
    EXPECT_EQ(ran.code, 1) << testing::PrintToString(arguments) << ran.err;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, testing::StartsWith("error: "));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST(Usage, NothingIsColouredWhereThereIsNoTerminal) {
  const auto ran = run_inferno({"generate", "-n", "2", "-v"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out + ran.err, testing::Not(HasSubstr("\x1b")));
}

TEST(Backends, ListsEveryNameWithADeviceOrAReason) {
  const auto list = run_inferno({"backends", "--json"}).json();
  std::vector<std::string> names;
  for (const auto& backend : list) {
    names.push_back(backend["name"]);
    if (backend["available"].get<bool>()) {
      EXPECT_NE(backend["device"], "");
    } else {
      EXPECT_NE(backend["reason"], "");
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"scalar", "simd", "parallel", "pool", "hybrid", "metal", "vulkan",
                                            "cuda", "gpu", "auto"}));
}

TEST(Backends, OutlivesOneThatCannotBeAsked) {
  setenv("INFERNO_KERNELS", "bogus", 1);
  const auto ran = run_inferno({"backends"});
  unsetenv("INFERNO_KERNELS");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("pool       no   INFERNO_KERNELS=bogus"));
  EXPECT_THAT(ran.out, HasSubstr("scalar     yes"));
}

TEST(Backends, NoneOverlooksWhatItHasNoUseFor) {
  for (const char* backend : {"scalar", "reference", "simd", "pool"}) {
    const auto numbered =
        run_inferno({"generate", "-p", "Once", "-n", "1", "--backend", backend, "--device", "7"});
    EXPECT_EQ(numbered.code, 1) << backend;
    EXPECT_THAT(numbered.err, HasSubstr("it has one device, number 0; 7 was asked for"));
    if (backend == std::string("pool")) continue;
    const auto ran =
        run_inferno({"generate", "-p", "Once", "-n", "1", "--backend", backend, "--threads", "7"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("runs on one thread; the 7 asked for are not used"));
  }
}

TEST(ModelGenerate, TakesThePositionalForm) {
  const std::string model = INFERNO_MODELS "/tale-12m-q8_0.gguf";
  const auto expected = run_inferno({"generate", "-p", "Once upon a time", "-n", "5", "--json"})
                            .json()["text"]
                            .get<std::string>();
  for (const auto& options : std::vector<std::vector<std::string>>{{},
                                                                   {"--kv"},
                                                                   {"--kv", "none"},
                                                                   {"--kv", "basic"},
                                                                   {"--kv", "paged"},
                                                                   {"--kv=basic", "--backend", "pool"},
                                                                   {"--backend=pool"}}) {
    auto arguments = options;
    arguments.insert(arguments.end(), {model, "Once upon a time", "5"});
    const auto ran = run_model_generate(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, testing::StartsWith("Once upon a time" + expected))
        << testing::PrintToString(options);
    for (const char* metric :
         {"backend", "kv", "time_to_first_token_ms", "decode_tokens_per_second", "per_forward_ms"}) {
      EXPECT_THAT(ran.out, HasSubstr(metric));
    }
  }
}

TEST(ModelGenerate, RefusesWhatItCannotRead) {
  const std::string model = INFERNO_MODELS "/tale-12m-q8_0.gguf";
  for (const auto& arguments : std::vector<std::vector<std::string>>{{},
                                                                     {model},
                                                                     {model, "x"},
                                                                     {model, "x", "many"},
                                                                     {model, "x", "-3"},
                                                                     {"--kv=big", model, "x", "1"},
                                                                     {"--what", model, "x", "1"}}) {
    EXPECT_EQ(run_model_generate(arguments).code, 2) << testing::PrintToString(arguments);
  }
  EXPECT_EQ(run_model_generate({"/no/such/file", "x", "1"}).code, 1);
  EXPECT_EQ(run_model_generate({"--help"}).code, 0);
}

TEST(Usage, AnEmptyValueDoesNotSwallowTheNextOption) {
  const auto ran = run_inferno({"tokenize", "--json", "--decode="});
  EXPECT_EQ(ran.code, run_inferno({"tokenize", "--json", "--decode", ""}).code);
  const auto generated = run_inferno({"generate", "--prompt=", "--json", "-n", "1"});
  EXPECT_EQ(generated.code, run_inferno({"generate", "--prompt", "", "--json", "-n", "1"}).code);
  if (generated.code == 0) {
    EXPECT_THAT(generated.out, HasSubstr("\"prompt_ids\""));
  }
}

TEST(Usage, ErrorsAreOneLineWithoutControlCharacters) {
  for (const std::string text : {"a\nb", "\x1b[31mred", "tab\there"}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{text},
                                                  {"generate", "-n", text},
                                                  {"synth", "--preset", text, "/tmp/never.gguf"}}) {
      const auto ran = run_inferno(words);
      EXPECT_EQ(ran.code, 2);
      EXPECT_EQ(std::count_if(ran.err.begin(), ran.err.end(), [](unsigned char c) { return c < 0x20; }), 1)
          << ran.err;
      EXPECT_THAT(ran.err, testing::StartsWith("error: "));
    }
  }
}

/// What the shell says of a command line of the program.
int code_of(const std::string& arguments) {
  const int status = std::system((std::string(INFERNO_PROGRAM) + " " + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Usage, ResultsThatCannotBeWrittenAreAFailure) {
  for (const std::string command :
       {"inspect", "inspect --json", "--version", "--help", "backends", "tokenize hello", "generate -n 1"}) {
    EXPECT_EQ(code_of(command + " >/dev/full 2>/dev/null"), 1) << command;
  }
  EXPECT_EQ(code_of("inspect >&- 2>/dev/null"), 1);
}

TEST(Usage, AClosedOrFullStderrChangesNoExitCode) {
  EXPECT_EQ(code_of("generate --backend abacus 2>/dev/full"), 2);
  EXPECT_EQ(code_of("generate --backend abacus 2>&-"), 2);
  EXPECT_EQ(code_of("generate -m /no/such/file 2>/dev/full"), 1);
  EXPECT_EQ(code_of("inspect >/dev/full 2>&-"), 1);
}

}  // namespace
}  // namespace inferno::test
