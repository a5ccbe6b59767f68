import Glibc

/// What `stat` says of a file, links followed. Another file, or other content, has another stamp.
struct FileStamp: Equatable, Sendable {
    var device: UInt64 = 0
    var inode: UInt64 = 0
    var size: Int64 = 0
    /// In nanoseconds since 1970, like `changed`.
    var modified: Int64 = 0
    var changed: Int64 = 0

    /// `nil` if there is no file.
    static func of(_ path: String) -> FileStamp? {
        var about = stat()
        guard stat(path, &about) == 0 else { return nil }
        func nanoseconds(_ time: timespec) -> Int64 {
            Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
        }
        return FileStamp(
            device: UInt64(about.st_dev), inode: UInt64(about.st_ino), size: Int64(about.st_size),
            modified: nanoseconds(about.st_mtim), changed: nanoseconds(about.st_ctim))
    }
}

/// Says when to read the files of a certificate and its key again: when they differ from the files of the
/// last read and have not changed since the look before. A renewal writes one file after the other.
struct CertificateWatch: Sendable {
    private var read: [FileStamp?]
    private var seen: [FileStamp?]

    /// With the stamps from just before the read.
    init(read stamps: [FileStamp?]) {
        read = stamps
        seen = stamps
    }

    mutating func look(_ stamps: [FileStamp?]) -> Bool {
        defer { seen = stamps }
        guard stamps != read, stamps == seen else { return false }
        read = stamps
        return true
    }

    /// Notes that the caller reads the files now, whether or not they have changed.
    mutating func noteRead(_ stamps: [FileStamp?]) { self = CertificateWatch(read: stamps) }
}
