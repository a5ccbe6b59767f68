import COpenSSL
import Synchronization

/// The keys of session tickets (RFC 5077, RFC 8446 §2.2). A client hands a ticket back to resume its session.
/// The keys depend on a secret and the time alone. So all processes with the secret read each other's
/// tickets, also those from before a restart, and no process has to announce a new key.
public struct TicketKeyring: Sendable {
    /// How long a key seals new tickets, and how long a ticket is valid.
    public static let periodSeconds: Int64 = 6 * 3600

    /// The name of one period's tickets, and the keys that encrypt and seal them.
    struct Key: Equatable, Sendable {
        static let nameBytes = 16
        var name: [UInt8]
        var cipher: [UInt8]
        var seal: [UInt8]
    }

    private var secret: [UInt8]
    private var period: Int64 = .min
    /// The keys of `period`, of the period before and of the next period, in that order. A ticket of the
    /// period before is still valid, and another gateway's clock may be in the next period already.
    private var keys: [Key] = []

    /// `nil` if the secret has less than 16 bytes.
    public init?(secret: [UInt8]) {
        guard secret.count >= 16 else { return nil }
        self.secret = secret
    }

    /// Keys come from another secret from now on, and tickets under the old one are unknown. A secret of less
    /// than 16 bytes changes nothing.
    mutating func change(secret next: [UInt8]) {
        guard next.count >= 16, next != secret else { return }
        (secret, period, keys) = (next, .min, [])
    }

    /// The key for new tickets. `now` is in seconds since 1970. `nil` if libcrypto fails.
    mutating func current(_ now: Int64) -> Key? {
        advance(to: now)
        return keys.first
    }

    /// The key of the tickets with this name; `nil` if they are too old, or from another secret.
    mutating func find(_ name: some Sequence<UInt8>, _ now: Int64) -> Key? {
        advance(to: now)
        return keys.first { $0.name.elementsEqual(name) }
    }

    private mutating func advance(to now: Int64) {
        // Rounded down, also before 1970.
        let next = (now - (now < 0 ? TicketKeyring.periodSeconds - 1 : 0)) / TicketKeyring.periodSeconds
        guard next != period else { return }
        let made = [next, next - 1, next + 1].compactMap { TicketKeyring.key(secret, $0) }
        keys = made.count == 3 ? made : []
        period = next
    }

    static func key(_ secret: [UInt8], _ period: Int64) -> Key? {
        let salt = Array("tidecast tls tickets 1".utf8)
        let info = (0..<8).map { UInt8(truncatingIfNeeded: period >> (56 - 8 * Int64($0))) }
        guard let out = HKDF.derive(secret, salt: salt, info: info, count: Key.nameBytes + 64) else {
            return nil
        }
        return Key(name: Array(out[..<16]), cipher: Array(out[16..<48]), seal: Array(out[48...]))
    }
}

/// One ring for all loops, by the wall clock.
final class TicketKeys: Sendable {
    private let ring: Mutex<TicketKeyring>
    private let now: @Sendable () -> Int64

    init(_ ring: TicketKeyring, now: @escaping @Sendable () -> Int64) {
        self.ring = Mutex(ring)
        self.now = now
    }

    func change(secret: [UInt8]) { ring.withLock { $0.change(secret: secret) } }

    private static let ivBytes = 16
    /// Fetched once: with the short name of a cipher libcrypto would search for the cipher at each ticket.
    // Safe: nothing changes the cipher, and nothing frees it.
    private nonisolated(unsafe) static let cipher = EVP_CIPHER_fetch(nil, "AES-256-CBC", nil)

    /// Encrypts tickets with AES-256-CBC and seals them with HMAC-SHA-256 (RFC 5077 §4). Returns libssl's
    /// codes: 1 for done, 0 for no ticket or an unknown one, less than 0 for a failure.
    func prepare(
        name: UnsafeMutablePointer<UInt8>, iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer,
        _ seal: OpaquePointer, isNew: Bool
    ) -> Int32 {
        let now = now()
        let key = ring.withLock { ring in
            isNew
                ? ring.current(now)
                : ring.find(UnsafeBufferPointer(start: name, count: TicketKeyring.Key.nameBytes), now)
        }
        guard let key else { return 0 }
        if isNew {
            guard RAND_bytes(iv, Int32(TicketKeys.ivBytes)) == 1 else { return -1 }
            name.update(from: key.name, count: TicketKeyring.Key.nameBytes)
        }
        guard EVP_CipherInit_ex(cipher, TicketKeys.cipher, nil, key.cipher, iv, isNew ? 1 : 0) == 1,
            tidecast_EVP_MAC_CTX_set_sha256_key(seal, key.seal, key.seal.count) == 1
        else { return -1 }
        return 1
    }
}
