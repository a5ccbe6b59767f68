#pragma once
#include <sys/types.h>  // nghttp2.h uses ssize_t without including it
#include <nghttp2/nghttp2.h>
