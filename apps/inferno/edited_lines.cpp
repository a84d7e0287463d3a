// Lines that somebody edits: libedit's editor over TypedBytes.

#include <array>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <exception>
#include <histedit.h>
#include <string_view>
#include <utility>

#include <inferno/error.hpp>

#include "line_input.hpp"

namespace inferno::cli {
namespace {

constexpr int kRememberedLines = 1000;

struct Binding {
  const wchar_t* key;
  const wchar_t* command;
};
/// What today's terminals send for keys that the editor does not know by itself. A tab is text, as in a line
/// of code that is pasted.
constexpr std::array kBindings = {
    Binding{L"^I", L"ed-insert"},          Binding{L"\\e[3~", L"ed-delete-next-char"},
    Binding{L"\\e[H", L"ed-move-to-beg"},  Binding{L"\\e[F", L"ed-move-to-end"},
    Binding{L"\\e[1~", L"ed-move-to-beg"}, Binding{L"\\e[4~", L"ed-move-to-end"},
    Binding{L"\\e[1;5C", L"em-next-word"}, Binding{L"\\e[1;5D", L"ed-prev-word"},
    Binding{L"^R", L"em-inc-search-prev"},
};

class EditedLines final : public LineInput {
 public:
  explicit EditedLines(TypedBytes& bytes) : bytes_(bytes) {
    // The editor works on characters and draws them in the locale's bytes. What is typed is UTF-8 whatever
    // LANG says: so are models' texts.
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
    editor_ = el_init("inferno", stdin, stderr, stderr);
    history_ = history_winit();
    if (editor_ == nullptr || history_ == nullptr) {
      close();
      throw Error("out of memory for the line editor");
    }
    HistEventW event{};
    history_w(history_, &event, H_SETSIZE, kRememberedLines);
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(editor_, EL_CLIENTDATA, this);
    el_wset(editor_, EL_GETCFN, &EditedLines::on_read);
    el_wset(editor_, EL_PROMPT, &EditedLines::on_prompt);
    el_wset(editor_, EL_HIST, history_w, history_);
    el_wset(editor_, EL_EDITOR, L"emacs");
    for (const auto& [key, command] : kBindings) el_wset(editor_, EL_BIND, key, command, nullptr);
    el_source(editor_, nullptr);
  }
  EditedLines(const EditedLines&) = delete;
  EditedLines& operator=(const EditedLines&) = delete;
  ~EditedLines() override { close(); }

  Came next(const std::string& prompt, std::string& line) override {
    prompt_.assign(prompt.begin(), prompt.end());
    stopped_by_ = Came::end;
    line.clear();
    // Before the prompt is seen: what is typed then is for the editor, not for the terminal's own line.
    el_wset(editor_, EL_PREP_TERM, 1);
    int count = 0;
    const wchar_t* const typed = el_wgets(editor_, &count);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    if (typed == nullptr || count <= 0) return stopped_by_;
    std::wstring_view text(typed, static_cast<std::size_t>(count));
    if (text.back() == L'\n') text.remove_suffix(1);
    remember(std::wstring(text));
    std::mbstate_t state{};
    for (const wchar_t character : text) {
      std::array<char, 16> bytes{};  // MB_LEN_MAX
      const auto size = std::wcrtomb(bytes.data(), character, &state);
      if (size != static_cast<std::size_t>(-1)) line.append(bytes.data(), size);
    }
    return Came::line;
  }

 private:
  static EditedLines& of(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<EditedLines*>(self);
  }
  static wchar_t* on_prompt(EditLine* editor) { return of(editor).prompt_.data(); }
  /// The editor is written in C: what is thrown must not pass through it.
  static int on_read(EditLine* editor, wchar_t* character) {
    auto& self = of(editor);
    try {
      return self.read(*character);
    } catch (...) {
      self.failure_ = std::current_exception();
      return 0;
    }
  }

  /// 1 and the next character, or 0: the line ends here, for the reason in stopped_by_.
  int read(wchar_t& character) {
    std::mbstate_t state{};
    while (true) {
      const int byte = bytes_.next();
      switch (byte) {
        case TypedBytes::kEnd:
          return 0;
        case TypedBytes::kInterrupted:
          stopped_by_ = Came::interrupt;
          return 0;
        case TypedBytes::kResized:
          el_resize(editor_);
          continue;
        case TypedBytes::kContinued:
          el_wset(editor_, EL_PREP_TERM, 1);
          el_wset(editor_, EL_REFRESH);
          continue;
        default:
          break;
      }
      const auto unit = static_cast<char>(byte);
      const bool is_first = std::mbsinit(&state) != 0;
      const auto size = std::mbrtowc(&character, &unit, 1, &state);
      if (size == static_cast<std::size_t>(-2)) continue;  // the character has more bytes
      if (size == static_cast<std::size_t>(-1)) {
        character = L'\uFFFD';
        if (!is_first) bytes_.again();  // it belongs to the next one
      }
      return 1;
    }
  }

  void remember(const std::wstring& text) {
    if (text.find_first_not_of(L" \t") == std::wstring::npos) return;
    HistEventW event{};
    history_w(history_, &event, H_ENTER, text.c_str());
  }

  void close() {
    if (editor_ != nullptr) el_end(editor_);
    if (history_ != nullptr) history_wend(history_);
  }

  TypedBytes& bytes_;
  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::wstring prompt_;
  Came stopped_by_ = Came::end;
  std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<LineInput> edited_lines(TypedBytes& bytes) {
  return std::make_unique<EditedLines>(bytes);
}

}  // namespace inferno::cli
