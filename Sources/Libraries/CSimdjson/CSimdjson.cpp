#include "CSimdjson.h"

#include <simdjson.h>

#include <algorithm>
#include <new>

struct tidecast_json_parser {
    simdjson::dom::parser parser;
    explicit tidecast_json_parser(size_t capacity) : parser(capacity) {}
};

extern "C" tidecast_json_parser *tidecast_json_parser_new(size_t capacity, size_t depth) {
    auto *parser = new (std::nothrow) tidecast_json_parser(capacity);
    if (parser == nullptr) return nullptr;
    if (parser->parser.allocate(capacity < 4096 ? capacity : 4096, depth) != simdjson::SUCCESS) {
        delete parser;
        return nullptr;
    }
    return parser;
}

extern "C" void tidecast_json_parser_free(tidecast_json_parser *parser) { delete parser; }

extern "C" const char *tidecast_json_parse(tidecast_json_parser *parser, const uint8_t *bytes, size_t length,
                                           const uint64_t **tape, const uint8_t **strings) {
    auto result = parser->parser.parse(bytes, length, false);
    if (result.error() != simdjson::SUCCESS) return simdjson::error_message(result.error());
    *tape = parser->parser.doc.tape.get();
    *strings = parser->parser.doc.string_buf.get();
    return nullptr;
}

extern "C" long tidecast_json_text_at(const uint8_t *bytes, size_t length, const char *pointer, uint8_t *out,
                                      size_t capacity) {
    simdjson::dom::parser parser;
    std::string_view text;
    // The parser copies the document, and pads the copy.
    if (parser.parse(bytes, length, true).at_pointer(pointer).get(text) != simdjson::SUCCESS) return -1;
    const size_t count = std::min(text.size(), capacity);
    std::copy_n(text.data(), count, out);
    return static_cast<long>(count);
}

extern "C" int tidecast_json_integer_at(const uint8_t *bytes, size_t length, const char *pointer, int64_t *out) {
    simdjson::dom::parser parser;
    return parser.parse(bytes, length, true).at_pointer(pointer).get(*out) == simdjson::SUCCESS ? 0 : -1;
}
