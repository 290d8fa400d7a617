#include "orchestrator/base/yaml.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace millwright {
namespace {

// The first error as "line:column+length message; hint", or the document as JSON.
std::string read(std::string_view text, const YamlLimits& limits = {}) {
  const auto document = parse_yaml(text, "f.yml", limits);
  if (document) return document->to_value().dump();
  const Error& error = document.error().front();
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_TRUE(error.where.has_value());
  if (!error.where) return error.message;
  EXPECT_EQ(error.where->file, "f.yml");
  std::string out = std::to_string(error.where->line) + ":" + std::to_string(error.where->column) + "+" +
                    std::to_string(error.where->length) + " " + error.message;
  if (!error.hint.empty()) out += "; " + error.hint;
  return out;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Yaml, ScalarsFollowTheCoreSchema) {
  EXPECT_EQ(read("[1, -2, +3, 0, 0x1F, 0o17, 1.5, .5, 1., 1e3, -1.5E-2]"),
            "[1,-2,3,0,31,15,1.5,0.5,1.0,1000.0,-0.015]");
  EXPECT_EQ(read("[true, True, FALSE, null, ~, Null]"), "[true,true,false,null,null,null]");
  EXPECT_EQ(read("[yes, no, on, off, y, n, 1_000, 1:30, 0b1, 2026-11-30]"),
            R"(["yes","no","on","off","y","n","1_000","1:30","0b1","2026-11-30"])");
  EXPECT_EQ(read(R"(["1", '2', "true", ''])"), R"(["1","2","true",""])");
}

TEST(Yaml, WhatTheSchemaWouldLoseStaysText) {
  EXPECT_EQ(read("[0644, 00, -012]"), R"(["0644","00","-012"])");
  EXPECT_EQ(read("[9223372036854775807, -9223372036854775808]"), "[9223372036854775807,-9223372036854775808]");
  EXPECT_EQ(read("[9223372036854775808, 0xFFFFFFFFFFFFFFFFF]"), R"(["9223372036854775808","0xFFFFFFFFFFFFFFFFF"])");
  EXPECT_EQ(read("12e4567"), R"("12e4567")");
  EXPECT_EQ(read("[., -, +, 1.2.3, e5, .e5, 1e, 0x, 0o8]"), R"([".","-","+","1.2.3","e5",".e5","1e","0x","0o8"])");
}

TEST(Yaml, InfinityAndNotANumber) {
  const auto document = parse_yaml("[.inf, -.inf, .nan]", "f.yml");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->items[0].to_value().get<double>(), HUGE_VAL);
  EXPECT_EQ(document->items[1].to_value().get<double>(), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(document->items[2].to_value().get<double>()));
}

TEST(Yaml, EmptyDocumentsAreNull) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "---\n...\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(read(text), "null") << text;
  }
}

TEST(Yaml, MarksPointAtTheText) {
  const auto document = parse_yaml("a: 1\nb:\n  - \"x y\"\n  - plain # note\nc:\nd: !secret env:X\n", "f.yml");
  ASSERT_TRUE(document);
  const SourceMark& quoted = document->find("b")->items[0].mark;
  EXPECT_EQ(quoted, (SourceMark{"f.yml", 3, 5, 5, "  - \"x y\""}));
  EXPECT_EQ(document->find("b")->items[1].mark, (SourceMark{"f.yml", 4, 5, 5, "  - plain # note"}));
  EXPECT_EQ(document->find("c")->kind, YamlKind::null);
  EXPECT_EQ(document->find("c")->mark, (SourceMark{"f.yml", 5, 1, 1, "c:"}));
  EXPECT_EQ(document->find("d")->tag, "!secret");
  EXPECT_EQ(document->find("d")->text, "env:X");
  EXPECT_EQ(document->entries[1].first.mark, (SourceMark{"f.yml", 2, 1, 1, "b:"}));
}

TEST(Yaml, BlockLiteralsKnowThePlaceOfEachLine) {
  const auto document = parse_yaml("run: |\n\n    one\n      two\nend: 1\n", "f.yml");
  ASSERT_TRUE(document);
  const YamlNode* run = document->find("run");
  EXPECT_EQ(run->text, "\none\n  two\n");
  EXPECT_TRUE(run->quoted);
  ASSERT_EQ(run->lines.size(), 3u);
  EXPECT_EQ(run->lines[1].line, 3);
  EXPECT_EQ(run->lines[1].column, 5);
  EXPECT_EQ(run->lines[2].line_text, "      two");
}

TEST(Yaml, WindowsLineEndsAndByteOrderMark) {
  const auto document = parse_yaml(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: two\r\n",
      "f.yml");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->to_value().dump(), R"({"a":1,"b":"two"})");
  EXPECT_EQ(document->find("b")->mark, (SourceMark{"f.yml", 2, 4, 3, "b: two"}));
}

TEST(Yaml, DuplicateKeysNameTheFirst) {
  EXPECT_EQ(read("a: 1\nb: 2\na: 3\n"), "3:1+1 duplicate key 'a'; already given in line 1");
  EXPECT_EQ(read("x: {k: 1, 'k': 2}"), "1:11+3 duplicate key 'k'; already given in line 1");
  const auto document = parse_yaml("a: 1\na: 2\nb: {c: 1, c: 2}\n", "f.yml");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().size(), 2u);  // goes on after the first
}

TEST(Yaml, UnterminatedQuotesPointAtTheQuote) {
  for (const char* text : {"a: \"b", "a: \"b\n", "a: \"", "a: \"b\n---\nc: d", "a: \"b\nc: d\n", "a: \"b\\\"\n"}) {
    EXPECT_TRUE(contains(read(text), "1:4+")) << text << read(text);
    EXPECT_TRUE(contains(read(text), "this quote is never closed")) << text << read(text);
  }
  EXPECT_TRUE(contains(read("a: 'b''\n"), "this quote is never closed"));
  EXPECT_EQ(read("a: 1\n'b\n"), "2:1+1 this quote is never closed");
  EXPECT_EQ(read("{a: \"b}"), "1:5+1 this quote is never closed");
  EXPECT_EQ(read("a: it's # \"no\nb: \"x"), "2:4+1 this quote is never closed");
}

TEST(Yaml, AQuoteThatSwallowedLinesIsNamed) {
  EXPECT_TRUE(contains(read("a: \"x\nb: \"y\"\n"), "a quote opened in line 1 ends just before"));
}

TEST(Yaml, TabsCannotIndent) {
  EXPECT_EQ(read("a:\n\tb: 1\n"), "2:1+1 a tab cannot indent YAML; use spaces");
  EXPECT_EQ(read("a:\n  - b\n\t- c\n"), "3:1+1 a tab cannot indent YAML; use spaces");
  EXPECT_EQ(read("\ta: 1\n"), "1:1+1 a tab cannot indent YAML; use spaces");
  EXPECT_EQ(read("a:\n\tb\n"), "2:1+1 a tab cannot indent YAML; use spaces");
  EXPECT_EQ(read("a: b\t# tabs elsewhere are fine\n"), R"({"a":"b"})");
  EXPECT_EQ(read("a: |\n  x\n  \ty\n"), R"({"a":"x\n\ty\n"})");
}

TEST(Yaml, OneDocumentAFile) {
  EXPECT_TRUE(contains(read("a: 1\n---\nb: 2\n"), "a second document starts here; one document a file"));
  EXPECT_EQ(read("- a\nb: c\n"), "2:1+1 this is outside of what the document began with; check the indentation");
  EXPECT_EQ(read("%YAML 1.2\n---\na: 1\n...\n"), R"({"a":1})");
}

TEST(Yaml, KeysAreScalars) {
  EXPECT_TRUE(contains(read("? [a]\n: b"), "a list or mapping cannot be a key"));
  EXPECT_TRUE(contains(read("~: b"), "a key is missing or null"));
  EXPECT_EQ(read("a: {{ b }}"),
            "1:4+2 an expression must be in quotes, or YAML takes it for a mapping; write \"{{ ... }}\"");
  EXPECT_EQ(read("{1: a, true: b}"), R"({"1":"a","true":"b"})");
}

TEST(Yaml, NotUtf8OrControlCharacters) {
  EXPECT_EQ(read("a: \xff\n"), "1:4+1 not UTF-8: byte 0xff; save the file as UTF-8");
  EXPECT_TRUE(contains(read("a: \xc0\xaf"), "not UTF-8"));      // overlong
  EXPECT_TRUE(contains(read("a: \xed\xa0\x80"), "not UTF-8"));  // a surrogate
  EXPECT_TRUE(contains(read("\xff\xfe"
                            "a"),
                       "not UTF-8"));
  EXPECT_TRUE(contains(read(std::string_view("a: \0", 4)), "control character 0x00"));
  EXPECT_TRUE(contains(read("a: \x04\nb: \"x"), "control character 0x04"));
  EXPECT_EQ(read("a: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "{\"a\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}");
}

TEST(Yaml, AliasesAndMergeKeys) {
  EXPECT_EQ(read("a: &x [1, 2]\nb: *x\n"), R"({"a":[1,2],"b":[1,2]})");
  EXPECT_EQ(read("base: &b {x: 1, y: 2}\nd: {<<: *b, y: 3}\n"), R"({"base":{"x":1,"y":2},"d":{"x":1,"y":3}})");
  EXPECT_EQ(read("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n"),
            R"({"a":{"x":1},"b":{"x":2,"y":2},"c":{"x":1,"y":2}})");
  EXPECT_TRUE(contains(read("a: {<<: 1}"), "'<<' merges mappings only"));
  EXPECT_EQ(read("a: {'<<': 1}"), R"({"a":{"<<":1}})");
  EXPECT_TRUE(contains(read("a: *x"), "1:4+1 this alias names no anchor above it"));
  EXPECT_TRUE(contains(read("a: &a [*a]"), "1:8+2 this alias stands inside of what it names"));
}

TEST(Yaml, AliasBombsStop) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string previous = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + previous;
    for (int k = 1; k < 10; ++k) bomb += ", " + previous;
    bomb += "]\n";
  }
  EXPECT_TRUE(contains(read(bomb), "too many nodes: more than 500000 after aliases are expanded"));

  std::string heavy = "a: &a \"" + std::string(1 << 20, 'x') + "\"\nb: [*a";
  for (int i = 0; i < 1000; ++i) heavy += ", *a";
  EXPECT_TRUE(contains(read(heavy + "]\n"), "too large after aliases are expanded"));
}

TEST(Yaml, LimitsOfSizeAndDepth) {
  YamlLimits limits;
  limits.max_bytes = 10;
  EXPECT_TRUE(contains(read("a: 12345678", limits), "too large: 11 bytes, at most 10 are read"));
  limits = {};
  limits.max_depth = 4;
  EXPECT_EQ(read("[[[1]]]", limits), "[[[1]]]");
  EXPECT_TRUE(contains(read("[[[[1]]]]", limits), "too deep: more than 4 levels"));
  EXPECT_TRUE(contains(read("a: &a [[1]]\nb: [*a]\n", limits), "too deep"));
  EXPECT_TRUE(contains(read(std::string(100'000, '[')), "too deep: more than 64 levels"));
  limits.max_nodes = 3;
  EXPECT_TRUE(contains(read("[1, 2, 3]", limits), "too many nodes: more than 3"));
}

TEST(Yaml, Tags) {
  EXPECT_EQ(read("[!!str 1, !!int \"5\", !!bool true, !!float 2]"), R"(["1",5,true,2])");
  EXPECT_TRUE(contains(read("a: !!int x"), "1:4+7 tag !!int does not fit this value"));
  EXPECT_TRUE(contains(read("a: !!binary aGk="), "tag !!binary does not fit this value"));
  EXPECT_EQ(read("a: !secret 123"), R"({"a":"123"})");
}

TEST(Yaml, SyntaxErrorsSayWhatToDo) {
  EXPECT_EQ(read("a: b: c"), "1:5+1 a ':' does not fit here; quote a text that holds ': ', and check the indentation");
  EXPECT_TRUE(contains(read("a:\n    b: 1\n  c: 2\n"), "3:3+1 this does not continue the mapping above it"));
  EXPECT_TRUE(contains(read("a: @x"), "1:4+1 a plain text cannot start with '@'; put it in quotes"));
  EXPECT_TRUE(contains(read("a: [1, 2\n"), "1:4+1 '[' is not closed"));
  EXPECT_TRUE(contains(read("a: ]"), "']' closes nothing"));
}

TEST(Yaml, LongLinesAreNotCopiedIntoEveryNode) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += "1, ";
  const auto document = parse_yaml(text + "1]", "f.yml");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->items[5].mark.line_text, "");
  EXPECT_EQ(document->items[5].mark.column, 17);
}

TEST(Yaml, FilesThatCannotBeRead) {
  const auto missing = load_yaml("/nonexistent/x.yml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].kind, ErrorKind::io);
  const auto folder = load_yaml("/");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error()[0].kind, ErrorKind::io);
  char name[] = "/tmp/mw-yaml-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  close(fd);
  const auto empty = load_yaml(name);
  EXPECT_TRUE(empty && empty->kind == YamlKind::null);
  std::ofstream(name) << "a: 1\n";
  EXPECT_EQ(load_yaml(name)->to_value().dump(), R"({"a":1})");
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace millwright
