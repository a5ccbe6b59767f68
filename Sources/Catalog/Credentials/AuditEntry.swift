import Bytes
import Model

/// A change that an operator made: who, what, when, from which address. Never a secret.
public struct AuditEntry: Hashable, Sendable {
    /// The person or program behind a change or a refusal, as the log names it.
    public struct Author: Hashable, Sendable {
        public var name: String
        /// An address, or the process at the other end of the admin socket.
        public var source: String
        public init(name: String, source: String) {
            self.name = AuditEntry.shown(name, bytesMax: AuditEntry.nameBytesMax)
            self.source = AuditEntry.shown(source, bytesMax: AuditEntry.nameBytesMax)
        }
    }

    public static let nameBytesMax = 128
    public static let subjectBytesMax = 256
    /// Entries that the log keeps. The oldest go first.
    public static let countMax = 2000

    public var time: WallTime
    public var author: Author
    /// For example `key.revoke`.
    public var action: String
    /// The thing that was changed.
    public var subject: String

    public init(time: WallTime, author: Author, action: String, subject: String) {
        self.time = time
        self.author = author
        self.action = AuditEntry.shown(action, bytesMax: AuditEntry.nameBytesMax)
        self.subject = AuditEntry.shown(subject, bytesMax: AuditEntry.subjectBytesMax)
    }

    /// Cut to `bytesMax`, with nothing in it that steers a terminal.
    static func shown(_ text: String, bytesMax: Int) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            let plain: Unicode.Scalar = Credential.isShown(scalar) ? scalar : "?"
            guard out.utf8.count + UTF8.width(plain) <= bytesMax else { break }
            out.unicodeScalars.append(plain)
        }
        return out
    }
}

extension AuditEntry {
    private static let version: UInt8 = 1

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 128)
        out.u8(AuditEntry.version)
        out.u64(UInt64(max(0, time.milliseconds)))
        for text in [author.name, author.source, action, subject] { out.string(text.utf8) }
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "an entry of the audit log", AuditEntry.version...AuditEntry.version)
        let time = try reader.time("the time of an entry")
        var texts: [String] = []
        for index in 0..<4 {
            let most = index == 3 ? AuditEntry.subjectBytesMax : AuditEntry.nameBytesMax
            texts.append(String(decoding: try reader.stringSlice(max: most), as: UTF8.self))
        }
        try reader.expectEnd()
        self.init(
            time: time, author: Author(name: texts[0], source: texts[1]), action: texts[2], subject: texts[3])
    }
}
