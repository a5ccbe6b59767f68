import Glibc

/// Whether others on this machine could read or change what is secret.
public enum FileModes {
    /// The kind of a secret path, with the mode that an operator should set.
    public enum Kind: Sendable {
        case file, folder

        fileprivate var mode: String { self == .file ? "600" : "700" }
        fileprivate var what: String { self == .file ? "" : "the folder " }
    }

    /// What is wrong with the path's mode, as a sentence. `nil` if the mode is right, if nothing is there, or
    /// if `stat` fails. A link counts as its target.
    ///
    /// - Parameter way: The option that says that the machine has no other users: `--loose-modes`.
    public static func mistake(_ path: String, _ kind: Kind, way: String = "--loose-modes") -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        // A pipe or a device holds nothing that others could read again.
        guard status.st_mode & S_IFMT == (kind == .file ? S_IFREG : S_IFDIR) else { return nil }
        guard
            let reason = reason(mode: status.st_mode & 0o7777, owner: status.st_uid, isFile: kind == .file)
        else { return nil }
        let mode = String(status.st_mode & 0o777, radix: 8)
        return "\(kind.what)\(path) can be \(reason) by others on this machine (mode 0\(mode)):"
            + " run chmod \(kind.mode) \(path), or give \(way) where the machine has no other users"
    }

    /// `nil` if only the owner reads and writes it. A group may also read a file of root: so an operator
    /// gives secrets to a service that must not change them.
    static func reason(mode: UInt32, owner: UInt32, isFile: Bool) -> String? {
        if mode & 0o022 != 0 { return "changed" }
        let isOfRoot = isFile && owner == 0
        return mode & (isOfRoot ? 0o007 : 0o077) != 0 ? "read" : nil
    }
}
