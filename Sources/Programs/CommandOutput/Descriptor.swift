import Foundation

/// `write(2)` until all is written.
enum Descriptor {
    /// Returns 0, or the error's number. A signal does not cut the output short.
    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int32 {
        var at = 0
        while at < bytes.count {
            let written = bytes[at...].withUnsafeBytes {
                Foundation.write(descriptor, $0.baseAddress, $0.count)
            }
            if written >= 0 {
                at += written
            } else if errno == EAGAIN {
                var waited = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&waited, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}
