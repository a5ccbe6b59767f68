import CommandOutput
import Foundation

/// A file for secrets, of mode 0600. It is written under another name beside its place, and put there when it
/// is whole. It replaces a file only if that was asked for, and only ever a plain file.
final class PrivateFile {
    private let path: String
    private let draft: String
    private var handle: FileHandle?
    private let mayReplace: Bool

    /// - Parameter mayReplace: `nil` if the command never replaces a file.
    /// - Throws: `ClientError` if something is at `path` or nothing can be written beside it.
    init(_ path: String, replacing mayReplace: Bool?) throws {
        guard !path.isEmpty else { throw ClientError("name a file, or - for standard output") }
        self.path = path
        self.mayReplace = mayReplace ?? false
        draft = "\(path).\(getpid()).new"
        var status = stat()
        if lstat(path, &status) == 0 {
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw ClientError("\(path) is not a plain file: name another file, or - for standard output")
            }
            guard self.mayReplace else {
                let force = mayReplace == nil ? "" : ", or give --force"
                throw ClientError("\(path) exists already: name another file\(force)")
            }
        }
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw ClientError("\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // Some file systems have no modes: FAT, and many shared folders.
        guard fstat(descriptor, &status) == 0, status.st_mode & 0o077 == 0 else {
            throw ClientError("\(path) would be readable by others: name a file elsewhere")
        }
    }

    deinit { if handle != nil { unlink(draft) } }

    /// Writes the text and puts the file in its place.
    func finish(_ text: String) throws {
        guard let handle else { return }
        do {
            try handle.write(contentsOf: Data(text.utf8))
            try handle.synchronize()
        } catch {
            throw ClientError("\(path) cannot be written: \(error.localizedDescription)")
        }
        guard mayReplace ? rename(draft, path) == 0 : publish() else {
            throw ClientError("\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        self.handle = nil
    }

    /// False, with `errno`, if another file has appeared there meanwhile.
    private func publish() -> Bool {
        if link(draft, path) == 0 {
            unlink(draft)
            return true
        }
        // Some file systems have no hard links. A file that appears there after this look is lost.
        guard [EPERM, EOPNOTSUPP, ENOSYS].contains(errno) else { return false }
        var status = stat()
        guard lstat(path, &status) != 0 else {
            errno = EEXIST
            return false
        }
        return rename(draft, path) == 0
    }
}

/// The place for a secret that is shown once: a private file, or standard output for `-`.
struct SecretOutput {
    private let file: PrivateFile?

    /// - Throws: if the secret could not be kept, before it is created.
    init(_ path: String, replacing: Bool?) throws {
        file = path == "-" ? nil : try PrivateFile(path, replacing: replacing)
    }

    /// False if the secret went to standard output, which may carry nothing else: `done` then goes to
    /// standard error. `loss`: what to do about a secret that could be written nowhere.
    func keep(_ secret: Any?, _ done: String, ifLost loss: String) throws -> Bool {
        let text = secret as? String ?? ""
        guard let file else {
            try Output.onlyCopy("the secret that was made is lost: \(loss)") { try Output.line(text) }
            Output.note("\(done)\n")
            return false
        }
        do {
            try file.finish(text)
        } catch {
            // The secret is created, and nobody else has it: it must not be lost.
            try Output.onlyCopy("the secret that was made is lost: \(loss)") { try Output.line(text) }
            throw error
        }
        return true
    }
}
