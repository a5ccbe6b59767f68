#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A reusable parser. Not thread-safe: one for each event loop.
typedef struct tidecast_json_parser tidecast_json_parser;

/// The bytes that must be readable (their content does not matter) after the input.
enum { tidecast_json_padding = 64 };

/// `capacity` is the largest document in bytes; `depth` the deepest nesting accepted.
tidecast_json_parser *tidecast_json_parser_new(size_t capacity, size_t depth);
void tidecast_json_parser_free(tidecast_json_parser *parser);

/// Validates `length` bytes (UTF-8, numbers, escapes, depth, nothing after the document) and leaves simdjson's tape
/// (its doc/tape.md has the format) and string buffer readable until the next call with this parser.
/// Returns NULL on success, else a static sentence that says what is wrong.
const char *tidecast_json_parse(tidecast_json_parser *parser, const uint8_t *bytes, size_t length,
                                const uint64_t **tape, const uint8_t **strings);

/// Looks up one value of a short document by its JSON pointer (RFC 6901), such as "/error/status", with a parser of its own. No
/// padding is needed. A string is written to `out`, cut to `capacity` bytes. Returns how many bytes are written, or -1 where the
/// document is no JSON or has no string there.
long tidecast_json_text_at(const uint8_t *bytes, size_t length, const char *pointer, uint8_t *out, size_t capacity);
/// The same for a whole number. Returns 0, or -1 where there is none.
int tidecast_json_integer_at(const uint8_t *bytes, size_t length, const char *pointer, int64_t *out);

#ifdef __cplusplus
}
#endif
