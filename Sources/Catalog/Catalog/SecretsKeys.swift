import COpenSSL
import Model

/// The keys that seal a server's own secrets in its database, as an operator gives them. The first key seals
/// what the server writes, and every key opens what is stored.
public struct SecretsKeys: Sendable {
    package struct Key: Sendable {
        /// The beginning of a hash of the key: names the key and shows nothing of it.
        package var id: [UInt8]
        package var material: [UInt8]

        package init(_ material: [UInt8]) {
            self.material = material
            var hash = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
            var count: UInt32 = 0
            let named = Array("tidecast secrets key".utf8) + material
            let made = EVP_Digest(named, named.count, &hash, &count, EVP_sha256(), nil)
            precondition(made == 1 && count == 32, "libcrypto cannot compute SHA-256")
            id = Array(hash[..<Key.idBytes])
        }

        static let idBytes = 8
        /// The length of a key of AES-256.
        package static let materialBytes = 32

        package var name: String { Hex.text(id) }
        package var number: UInt64 { id.reduce(0) { $0 << 8 | UInt64($1) } }
    }

    /// The most keys that an operator may give.
    public static let countMax = 8
    /// In the place of the first key: the server seals nothing that it writes. For the way from a cluster
    /// without keys to a cluster with keys, and back.
    package static let plain = "plain"
    package static let textBytesMax = 4096

    /// `nil` if the server does not seal what it writes.
    let sealing: Key?
    package let all: [Key]

    /// No key: the server seals nothing, and opens nothing that is sealed.
    public static let none = SecretsKeys()

    private init() { (sealing, all) = (nil, []) }

    /// - Parameter text: Keys of 32 bytes in Base64 (RFC 4648 §4 or §5), with white space or commas between
    ///   them.
    /// - Throws: `NodeError`, which says what is wrong and shows nothing of a key.
    public init(_ text: String) throws(NodeError) {
        guard text.utf8.count <= SecretsKeys.textBytesMax else {
            throw NodeError("secrets keys have at most \(SecretsKeys.textBytesMax) bytes of text")
        }
        let words = text.split { $0.isWhitespace || $0 == "," }
        guard !words.isEmpty, words.count <= SecretsKeys.countMax else {
            throw NodeError(
                words.isEmpty
                    ? "the secrets key is missing: `tidecast secrets key` makes one"
                    : "there are \(words.count) secrets keys, and at most \(SecretsKeys.countMax) may be")
        }
        var all: [Key] = []
        for (index, word) in words.enumerated() where index > 0 || word != SecretsKeys.plain {
            let digits = word.utf8.map { byte in
                byte == UInt8(ascii: "+")
                    ? UInt8(ascii: "-") : byte == UInt8(ascii: "/") ? UInt8(ascii: "_") : byte
            }
            let bare = digits.prefix(while: { $0 != UInt8(ascii: "=") })
            guard digits.count - bare.count <= 1, let material = Base64URL.decode(bare),
                material.count == Key.materialBytes
            else {
                throw NodeError(
                    "secrets key \(index + 1) is not 32 bytes in Base64: `tidecast secrets key` makes one")
            }
            let key = Key(material)
            guard !all.contains(where: { $0.id == key.id }) else {
                throw NodeError("secrets key \(index + 1) is given twice")
            }
            all.append(key)
        }
        guard let first = all.first else {
            throw NodeError(
                "\"\(SecretsKeys.plain)\" must be followed by the secrets keys that open the sealed values")
        }
        self.all = all
        sealing = words[0] == SecretsKeys.plain ? nil : first
    }

    /// A new key, in the form that `init` reads.
    public static func make() throws -> String {
        let digits = Base64URL.encode(try Catalog.random(Key.materialBytes)).map { byte in
            byte == UInt8(ascii: "-")
                ? UInt8(ascii: "+") : byte == UInt8(ascii: "_") ? UInt8(ascii: "/") : byte
        }
        return String(decoding: digits, as: UTF8.self) + "="
    }
}
