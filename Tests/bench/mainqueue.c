// Valgrind 3.19 ends when the main thread ends, and libdispatch ends it in `dispatch_main`. Preloaded, this function stays on
// the main thread and serves the main queue instead.
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

extern int _dispatch_get_main_queue_handle_4CF(void);
extern void _dispatch_main_queue_callback_4CF(void *);

void dispatch_main(void) {
  int handle = _dispatch_get_main_queue_handle_4CF();
  for (;;) {
    struct pollfd wait = {handle, POLLIN, 0};
    uint64_t count;
    _dispatch_main_queue_callback_4CF(0);
    if (poll(&wait, 1, -1) > 0 && read(handle, &count, sizeof count) < 0) continue;
  }
}
