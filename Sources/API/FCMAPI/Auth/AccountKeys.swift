import COpenSSL
import Credentials
import Model

/// The public keys of service accounts. A key is read from its PEM at its first use and kept until the
/// directory changes: reading a key costs about ten times as much as verifying with it. Confined to one loop.
final class AccountKeys {
    /// The most keys that are kept. One more empties the whole table.
    static let keptMax = 4096

    private var kept: [String: PublicKey] = [:]
    /// The ids of an account's keys, by its e-mail. Created when the first assertion comes that names no key.
    private var byEmail: [String: [String]]?
    private(set) var readCount = 0

    /// The directory changed.
    func forget() {
        kept.removeAll()
        byEmail = nil
    }

    /// `nil` if the account's PEM holds no key.
    func key(_ id: String, of account: Directory.ServiceAccount) -> PublicKey? {
        if let key = kept[id] { return key }
        readCount += 1
        guard let key = PublicKey(pem: account.publicKey) else { return nil }
        if kept.count >= AccountKeys.keptMax { kept.removeAll() }
        kept[id] = key
        return key
    }

    /// The ids of the valid keys of this e-mail, at most as many as an account may have.
    func ids(of email: String, in directory: Directory, now: WallTime) -> [String] {
        if byEmail == nil {
            var ids: [String: [String]] = [:]
            for (id, account) in directory.accounts { ids[account.email, default: []].append(id) }
            byEmail = ids.mapValues { $0.sorted() }
        }
        let found = (byEmail?[email] ?? []).lazy.filter { id in
            directory.accounts[id].map { now.isBefore($0.end) } ?? false
        }
        return Array(found.prefix(CredentialBook.accountKeysMax))
    }
}

/// An RSA key that verifies signatures.
final class PublicKey {
    private let key: OpaquePointer

    /// SubjectPublicKeyInfo in PEM; `nil` if the text is none.
    init?(pem: String) {
        guard let key = Crypto.read(pem, { PEM_read_bio_PUBKEY($0, nil, nil, nil) }) else { return nil }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// RS256 (RFC 7518 §3.3).
    func verifies(_ message: [UInt8], signature: [UInt8]) -> Bool {
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { return false }
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}
