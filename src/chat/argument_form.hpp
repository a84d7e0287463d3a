#pragma once

#include <functional>
#include <optional>
#include <string>

#include "chat/conversation.hpp"

namespace inferno {

/// Renders a conversation as it is given; nullopt if the template fails with it.
using TryRender = std::function<std::optional<std::string>(const Conversation& conversation)>;

/// In which form a template takes the arguments of tool calls, found by rendering short conversations with
/// both: with and without tools and a system message, since some templates print calls only with them.
/// nullopt if none of these shows it.
std::optional<ArgumentForm> probe_argument_form(const TryRender& render);

/// The same, for one conversation: what surrounds its calls stays, their arguments are replaced. nullopt if
/// it makes no difference.
std::optional<ArgumentForm> probe_argument_form(const Conversation& conversation, const TryRender& render);

/// Whether some message calls tools.
bool has_tool_calls(const jinja::Value& messages);

}  // namespace inferno
