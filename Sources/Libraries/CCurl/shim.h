#pragma once
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

// Swift imports no variadic function: one function for each kind of argument.
static inline CURLcode tidecast_curl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode tidecast_curl_set_offset(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}
// libcurl copies the text.
static inline CURLcode tidecast_curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
// libcurl keeps the pointer.
static inline CURLcode tidecast_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}
// libcurl copies the bytes.
static inline CURLcode tidecast_curl_set_bytes(CURL *handle, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, option, &blob);
}
// The type of CURLOPT_READFUNCTION, CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION.
typedef size_t (*tidecast_curl_mover)(char *bytes, size_t size, size_t count, void *data);
static inline CURLcode tidecast_curl_set_mover(CURL *handle, CURLoption option, tidecast_curl_mover mover) {
    return curl_easy_setopt(handle, option, mover);
}
static inline CURLcode tidecast_curl_set_dialler(CURL *handle, curl_opensocket_callback open) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, open);
}
static inline CURLcode tidecast_curl_set_starter(CURL *handle, curl_prereq_callback start) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, start);
}
static inline CURLMcode tidecast_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
// The fields of a message that libcurl keeps in a union.
static inline CURLcode tidecast_curl_result(const CURLMsg *message) { return message->data.result; }
