#include <gtest/gtest.h>
#include "grammar/grammar.hpp"
TEST(Schema, Begins) { inferno::grammar::json_schema(R"({"type":"object","properties":{"a":{"type":"integer"}}})"); }
