#pragma once
#include <stddef.h>
#include <sys/epoll.h>  // not part of Swift's Glibc module

// Declared by <string.h> only under _GNU_SOURCE.
void *memmem(const void *text, size_t text_size, const void *part, size_t part_size);
