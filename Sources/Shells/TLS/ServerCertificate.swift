import COpenSSL
import Glibc

/// The PEM files of a certificate chain, the server's own certificate first, and of its key.
public struct CertificateFiles: Hashable, Sendable {
    public var chain: String
    public var key: String
    public init(chain: String, key: String) {
        self.chain = chain
        self.key = key
    }
    var stamps: [FileStamp?] { [FileStamp.of(chain), FileStamp.of(key)] }
}

/// A certificate chain and the matching key, ready for handshakes.
public final class ServerCertificate: Sendable {
    public let names: CertificateNames
    /// When the server's own certificate ends, in seconds since 1970.
    public let notAfter: Int64
    /// A server's side that names no protocol (ALPN, RFC 7301).
    package let context: TLSContext
    /// Of both files: shows whether either has new content.
    let digest: [UInt8]

    /// Reads both files. The error says which of them cannot be used, and why.
    public convenience init(_ files: CertificateFiles) throws(TLSError) {
        try self.init(files) { _ in }
    }

    init(_ files: CertificateFiles, _ prepare: (TLSContext) -> Void) throws(TLSError) {
        let pair = try CertificatePair(files)
        let context = try TLSContext()
        try context.show(pair)
        prepare(context)
        self.context = context
        names = CertificateNames(pair.names)
        notAfter = pair.notAfter
        digest = pair.digest
    }
}

/// The content of a chain's file and a key's file, until libssl has it.
struct CertificatePair: ~Copyable {
    let files: CertificateFiles
    /// The server's own certificate is first.
    let certificates: [OpaquePointer]
    let key: OpaquePointer
    let digest: [UInt8]

    init(_ files: CertificateFiles) throws(TLSError) {
        let chainBytes = try PEMFile.contents(of: files.chain)
        let keyBytes = try PEMFile.contents(of: files.key)
        let key = try PEMFile.key(keyBytes, of: files.key)
        do {
            certificates = try PEMFile.certificates(chainBytes, of: files.chain)
        } catch {
            EVP_PKEY_free(key)
            throw error
        }
        self.files = files
        self.key = key
        digest = CertificatePair.digest(chainBytes) + CertificatePair.digest(keyBytes)
    }

    deinit {
        for certificate in certificates { X509_free(certificate) }
        EVP_PKEY_free(key)
    }

    /// Why certificate and key do not match; `nil` if they match.
    var mistake: TLSError? {
        defer { ERR_clear_error() }
        if X509_check_private_key(certificates[0], key) == 1 { return nil }
        for (index, certificate) in certificates.enumerated().dropFirst()
        where X509_check_private_key(certificate, key) == 1 {
            return TLSError(
                description:
                    "\(files.key) is the key of certificate \(index + 1) in \(files.chain): the server's"
                    + " own certificate must stand first")
        }
        return TLSError(description: "\(files.key) is not the key of the certificate in \(files.chain)")
    }

    var notAfter: Int64 {
        var time = tm()
        guard ASN1_TIME_to_tm(X509_get0_notAfter(certificates[0]), &time) == 1 else { return 0 }
        return Int64(timegm(&time))
    }

    /// The DNS names of the server's own certificate.
    var names: [String] { X509Names.hosts(of: certificates[0]) }

    static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        EVP_Digest(bytes, bytes.count, &out, &count, EVP_sha256(), nil)
        return Array(out[..<Int(count)])
    }
}
