import Foundation

/// Keeps the client's state and its registration over the life of a process. The engine's queue calls it.
protocol Storage: Sendable {
    /// `state`: `nil` if none is stored.
    func load() throws -> (state: ClientState?, registrations: Registrations)
    /// `isUrgent`: the state must survive a loss of power when this returns. Otherwise it must survive the
    /// death of the process.
    func store(_ state: ClientState, isUrgent: Bool) throws
    /// As an urgent `store` of the state.
    func store(_ registrations: Registrations) throws
}

/// Files in a folder that only the user may enter. A second process that uses the folder is refused.
final class FileStorage: Storage {
    let folder: URL
    /// The descriptor whose lock says that this process uses the folder; the system ends it with the process.
    private let lock: Int32

    private var stateFile: URL { folder.appendingPathComponent("state.json") }
    private var registrationFile: URL { folder.appendingPathComponent("registration.json") }

    /// Throws `storage` if the folder cannot be created or entered, and `operationInProgress` if another
    /// process uses it.
    init(folder: URL) throws(MessagingError) {
        self.folder = folder
        do {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw MessagingError(.storage, "The folder \(folder.path) cannot be made: \(error)")
        }
        let path = folder.appendingPathComponent("lock").path
        lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard lock >= 0 else {
            throw MessagingError(.storage, "\(path) cannot be opened: \(FileStorage.reason)")
        }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            let isTaken = errno == EWOULDBLOCK
            let message =
                isTaken
                ? "Another process, or another Messaging of this process, uses \(folder.path)."
                : "\(path) cannot be locked: \(FileStorage.reason)"
            close(lock)
            throw MessagingError(isTaken ? .operationInProgress : .storage, message)
        }
    }

    deinit { close(lock) }

    private static var reason: String { String(cString: strerror(errno)) }

    func load() throws -> (state: ClientState?, registrations: Registrations) {
        (
            try read(ClientState.self, stateFile),
            try read(Registrations.self, registrationFile) ?? Registrations()
        )
    }

    func store(_ state: ClientState, isUrgent: Bool) throws {
        try write(JSONEncoder().encode(state), to: stateFile, isUrgent: isUrgent)
    }

    func store(_ registrations: Registrations) throws {
        // A file can be removed even if the disk is full.
        guard registrations == Registrations() else {
            return try write(JSONEncoder().encode(registrations), to: registrationFile, isUrgent: true)
        }
        guard unlink(registrationFile.path) == 0 || errno == ENOENT else {
            throw MessagingError(
                .storage, "\(registrationFile.path) cannot be removed: \(FileStorage.reason)")
        }
        try syncFolder()
    }

    /// `nil` if there is no file. A file that cannot be read as what it should be is an error, because the
    /// wishes in it would be lost silently.
    private func read<Value: Decodable>(_ type: Value.Type, _ file: URL) throws -> Value? {
        guard FileManager.default.fileExists(atPath: file.path) else { return nil }
        do {
            return try JSONDecoder().decode(type, from: Data(contentsOf: file))
        } catch {
            throw MessagingError(
                .storage, "\(file.path) cannot be read: \(error). Repair or remove the file.")
        }
    }

    /// The file has the old content or the new one, whenever the process ends. Mode 0600 from its first byte
    /// on.
    private func write(_ data: Data, to file: URL, isUrgent: Bool) throws {
        let draft = file.path + ".new"
        let descriptor = open(draft, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw MessagingError(.storage, "\(draft) cannot be written: \(FileStorage.reason)")
        }
        defer { close(descriptor) }
        var rest = data[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw MessagingError(.storage, "\(draft) cannot be written: \(FileStorage.reason)")
            }
            rest = rest.dropFirst(count)
        }
        if isUrgent, fsync(descriptor) != 0 {
            throw MessagingError(.storage, "\(draft) cannot be synced: \(FileStorage.reason)")
        }
        guard rename(draft, file.path) == 0 else {
            throw MessagingError(.storage, "\(file.path) cannot be replaced: \(FileStorage.reason)")
        }
        if isUrgent { try syncFolder() }
    }

    /// The new name of the file is on the disk too.
    private func syncFolder() throws {
        let descriptor = open(folder.path, O_RDONLY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        guard descriptor >= 0, fsync(descriptor) == 0 else {
            throw MessagingError(.storage, "\(folder.path) cannot be synced: \(FileStorage.reason)")
        }
    }
}
