import Foundation
import Synchronization

/// The log of a server on standard error, which may be closed, full, or a pipe that nobody reads. A line that
/// finds no room is dropped and counted: the log must not stop the server.
package final class LogOutput: Sendable {
    package static let standardError = LogOutput(STDERR_FILENO)

    /// Bytes that a pipe takes whole once it has room at all (`PIPE_BUF`).
    private static let pieceBytesMax = 4096

    private let descriptor: Int32
    /// Whether a part of the last line was written, and its end was not.
    private let isCut = Mutex(false)
    private let lost = Atomic<Int>(0)

    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package var linesLost: Int { lost.load(ordering: .relaxed) }

    package func write(_ line: [UInt8]) {
        let isWritten = isCut.withLock { isCut in
            let (bytes, least) = isCut ? ([0x0A] + line, 1) : (line, 0)
            let count = put(bytes)
            // Without the end of the line before it, a program could read neither line.
            if count > least { isCut = count < bytes.count } else if count > 0 { isCut = false }
            return count == bytes.count
        }
        if !isWritten { lost.add(1, ordering: .relaxed) }
    }

    /// Returns how many bytes were written. Never waits. Other processes may share the descriptor, so it
    /// stays blocking. A piece is written only if the kernel has room for it.
    private func put(_ line: [UInt8]) -> Int {
        var at = 0
        while at < line.count {
            var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard poll(&room, 1, 0) == 1, room.revents & Int16(POLLOUT) != 0 else { return at }
            let piece = line[at...].prefix(LogOutput.pieceBytesMax)
            let written = piece.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 {
                at += written
            } else if written == 0 || errno != EINTR {
                return at
            }
        }
        return at
    }
}
