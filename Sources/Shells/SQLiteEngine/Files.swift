import Glibc
import Journal

/// The file operations that the engine needs beside SQLite's, with errors as sentences.
enum Files {
    static func reason() -> String { String(cString: strerror(errno)) }

    /// Creates the folder and its missing parents, readable for this user only.
    static func makeFolder(_ path: String) throws(EngineError) {
        if mkdir(path, 0o700) == 0 { return }
        if errno == ENOENT, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
            try makeFolder(String(path[..<slash]))
            if mkdir(path, 0o700) == 0 { return }
        }
        guard errno == EEXIST, isFolder(path) else {
            throw .refused("cannot make the folder \(path): \(reason())")
        }
    }

    static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Bytes of the file; 0 if there is none.
    static func size(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Which file a path names.
    struct Place: Equatable {
        var device: UInt64
        var file: UInt64
    }

    /// `nil` if there is none.
    static func place(_ path: ContiguousArray<CChar>) -> Place? {
        var status = stat()
        let code = path.withUnsafeBufferPointer { $0.baseAddress.map { stat($0, &status) } ?? -1 }
        guard code == 0 else { return nil }
        return Place(device: UInt64(status.st_dev), file: UInt64(status.st_ino))
    }

    /// Creates an empty file, readable for this user only, if there is none.
    static func makeFile(_ path: String) throws(EngineError) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw .refused("cannot make \(path): \(reason())") }
        close(file)
    }

    /// Writes a new file, or appends to one, and syncs it. A full disk is `refused`, also if only the sync
    /// finds out; the file is of no use then.
    static func write(_ path: String, _ bytes: [UInt8], isNew: Bool) throws(EngineError) {
        let how = isNew ? O_CREAT | O_TRUNC : O_APPEND
        let file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | how, 0o600)
        guard file >= 0 else {
            // Nothing is broken, and nothing is lost: the write comes again.
            if errno == EACCES || errno == EROFS { throw .refused("cannot make \(path): \(reason())") }
            throw failure("cannot make \(path)")
        }
        defer { close(file) }
        try write(bytes, to: file, path)
        guard fdatasync(file) == 0 else { throw failure("cannot sync \(path)") }
    }

    private static func write(_ bytes: [UInt8], to file: Int32, _ path: String) throws(EngineError) {
        try bytes.withUnsafeBufferPointer { buffer throws(EngineError) in
            var written = 0
            while written < buffer.count {
                // At most 1 MiB at once, so that a test can crash the process in the middle.
                let chunk = UnsafeBufferPointer(
                    rebasing: buffer[written..<min(buffer.count, written + 1 << 20)])
                let count = Glibc.write(file, chunk.baseAddress, chunk.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure("cannot write \(path)") }
                written += count
                Failpoint.reach("snapshot.writing")
            }
        }
    }

    static func failure(_ what: String) -> EngineError {
        switch errno {
        case let code where isFull(code): .refused("the disk is full")
        case let code where isOutOfDescriptors(code): .refused(tooManyOpen)
        default: .ioFailure("\(what): \(reason())")
        }
    }

    /// Whether there is no room: on the disk, in its quota, or up to the limit of a file (`ulimit -f`).
    static func isFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT || code == EFBIG }

    /// Whether the process or the machine has no descriptor left. Nothing is broken then.
    static func isOutOfDescriptors(_ code: Int32) -> Bool { code == EMFILE || code == ENFILE }
    static let tooManyOpen = "too many open files"

    /// The whole file, if it has at most `bytesMax`.
    static func read(_ path: String, bytesMax: Int) throws(EngineError) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else {
            if errno == ENOENT { throw .corrupt("\(path) is not there") }
            throw failure("cannot open \(path)")
        }
        defer { close(file) }
        let size = size(path)
        guard size <= bytesMax else { throw .corrupt("\(path) has \(size) bytes") }
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            while count < size {
                let got = Glibc.read(file, buffer.baseAddress.map { $0 + count }, size - count)
                if got < 0, errno == EINTR { continue }
                if got < 0 { failed = true }
                if got <= 0 { break }
                count += got
            }
        }
        if failed { throw .ioFailure("cannot read \(path): \(reason())") }
        return bytes
    }

    /// Names in a folder, without `.` and `..`.
    static func names(in path: String) -> [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { field in
                field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
                    String(cString: $0)
                }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }
}

/// A folder that is open from the start, so that the engine can sync its entries even when the process has no
/// descriptor left.
final class OpenFolder {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws(EngineError) {
        self.path = path
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Files.failure("cannot open \(path)") }
    }

    deinit { close(descriptor) }

    func sync() throws(EngineError) {
        guard fsync(descriptor) == 0 else { throw .ioFailure("cannot sync \(path): \(Files.reason())") }
    }
}
