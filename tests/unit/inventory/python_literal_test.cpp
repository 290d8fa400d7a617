#include "inventory/python_literal.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

struct Case {
  const char* text;
  const char* json;  // of the value that Ansible reads; recorded from ast.literal_eval of Python 3.11
};

class IniValue : public ::testing::TestWithParam<Case> {};

TEST_P(IniValue, IsReadAsPythonDoes) { EXPECT_EQ(ini_value(GetParam().text), Value::parse(GetParam().json)); }

INSTANTIATE_TEST_SUITE_P(
    Literals, IniValue,
    ::testing::Values(
        Case{"22", "22"}, Case{"-7", "-7"}, Case{"+7", "7"}, Case{"--7", R"("--7")"}, Case{"0644", R"("0644")"},
        Case{"00", "0"}, Case{"0x1f", "31"}, Case{"0o17", "15"}, Case{"0b101", "5"}, Case{"1_000", "1000"},
        Case{"1__0", R"("1__0")"}, Case{"1.5", "1.5"}, Case{".5", "0.5"}, Case{"5.", "5.0"}, Case{"1e3", "1000.0"},
        Case{"1e-3", "0.001"}, Case{"1.2.3", R"("1.2.3")"}, Case{"True", "true"}, Case{"true", R"("true")"},
        Case{"False", "false"}, Case{"None", "null"}, Case{"yes", R"("yes")"}, Case{"", R"("")"},
        Case{"'a b'", R"("a b")"}, Case{"\"a\"", R"("a")"}, Case{"'a' \"b\"", R"("ab")"}, Case{"'a\\n'", R"("a\n")"},
        Case{"r'a\\n'", R"("a\\n")"}, Case{"'\\x41\\u00e9'", R"("Aé")"}, Case{"'''x'''", R"("x")"},
        Case{"'open", R"("'open")"}, Case{"[1, 'a', None]", R"([1, "a", null])"}, Case{"(1, 2)", "[1, 2]"},
        Case{"(1)", "1"}, Case{"(1,)", "[1]"}, Case{"1, 2", "[1, 2]"}, Case{"[1 2]", R"("[1 2]")"}, Case{"[1,]", "[1]"},
        Case{"[,]", R"("[,]")"}, Case{"{'a': [1, {'b': 2}]}", R"({"a": [1, {"b": 2}]})"}, Case{"{1}", "[1]"},
        Case{"{}", "{}"}, Case{"{'a': }", R"("{'a': }")"}, Case{"5 # five", "5"}, Case{"five # 5", R"("five # 5")"},
        Case{"a=b", R"("a=b")"}, Case{"{{ x }}", R"("{{ x }}")"}, Case{"1j", R"("1j")"}));

TEST(PythonLiteral, DeepNestingEndsAsText) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(ini_value(deep), Value(deep));
}

}  // namespace
}  // namespace millwright
