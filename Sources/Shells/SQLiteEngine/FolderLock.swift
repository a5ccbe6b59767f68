import Glibc
import Journal

/// Held while a process has a data folder open, so that no second process opens it. The kernel releases the
/// lock when the process ends, however it ends.
public final class FolderLock: Sendable {
    private let file: Int32

    /// A command has a folder for a moment, and so has who looks for the folder's process.
    private static let tries = 20
    private static let pauseMicroseconds: UInt32 = 100_000

    /// Throws `refused` with a sentence if another process has the folder open for two seconds.
    public init(folder: String) throws(EngineError) {
        let path = folder + "/LOCK"
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw .refused("cannot make \(path): \(Files.reason())") }
        var isHeld = flock(file, LOCK_EX | LOCK_NB) == 0
        for _ in 1..<FolderLock.tries where !isHeld {
            usleep(FolderLock.pauseMicroseconds)
            isHeld = flock(file, LOCK_EX | LOCK_NB) == 0
        }
        guard isHeld else {
            // `deinit` closes the file also after this throw, because every property has its value here.
            throw .refused(
                "another tidecast (pid \(FolderLock.holder(file))) has the folder \(folder) open: end it, or"
                    + " use another --data")
        }
        let text = Array("\(getpid())\n".utf8)
        ftruncate(file, 0)
        text.withUnsafeBytes { _ = pwrite(file, $0.baseAddress, $0.count, 0) }
    }

    deinit { close(file) }

    /// The process that holds the lock, as it has written its id; `nil` if nobody holds it.
    static func holder(of folder: String) -> String? {
        let file = open(folder + "/LOCK", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else { return nil }
        defer { close(file) }
        return flock(file, LOCK_SH | LOCK_NB) == 0 ? nil : holder(file)
    }

    private static func holder(_ file: Int32) -> String {
        var buffer = [UInt8](repeating: 0, count: 20)
        let count = buffer.withUnsafeMutableBytes { pread(file, $0.baseAddress, $0.count, 0) }
        let digits = buffer.prefix(max(0, count)).prefix {
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        return digits.isEmpty ? "unknown" : String(decoding: digits, as: UTF8.self)
    }
}
