import COpenSSL
import Glibc

/// Why a certificate or key cannot be used.
public struct TLSError: Error, CustomStringConvertible, Sendable {
    public var description: String
}

/// Reads PEM files of certificates and keys, and says why a file cannot be read.
enum PEMFile {
    /// Certificates and keys have a few KiB; a longer file is something else.
    private static let bytesMax = 1 << 20

    static func contents(of path: String) throws(TLSError) -> [UInt8] {
        guard let file = fopen(path, "re") else { throw unreadable(path) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 16 << 10)
        while bytes.count <= bytesMax {
            let count = fread(&part, 1, part.count, file)
            if count == 0, ferror(file) != 0 { throw unreadable(path) }
            if count == 0 { return bytes }
            bytes += part[..<count]
        }
        throw TLSError(description: "\(path) has more than 1 MiB, so it is neither a certificate nor a key")
    }

    private static func unreadable(_ path: String) -> TLSError {
        guard errno != ENOENT else { return TLSError(description: "\(path): no such file") }
        return TLSError(description: "\(path) cannot be read: \(String(cString: strerror(errno)))")
    }

    /// All certificates of a file, in its order. The caller frees them.
    static func certificates(_ bytes: [UInt8], of path: String) throws(TLSError) -> [OpaquePointer] {
        let bio = try memory(bytes)
        defer { BIO_free(bio) }
        ERR_clear_error()
        var found: [OpaquePointer] = []
        while let next = PEM_read_bio_X509(bio, nil, nil, nil) { found.append(next) }
        let code = ERR_peek_last_error()
        let isAtEnd = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE
        if isAtEnd, !found.isEmpty {
            ERR_clear_error()
            return found
        }
        for certificate in found { X509_free(certificate) }
        if isAtEnd {
            ERR_clear_error()
            throw TLSError(description: "\(path): the file holds no certificate")
        }
        throw TLSError(
            description: "\(path): certificate \(found.count + 1) cannot be read (\(TLSContext.reason()))")
    }

    /// The first private key of a file; with a passphrase, the key may be encrypted. The caller frees the
    /// key.
    static func key(
        _ bytes: [UInt8], of path: String, passphrase: String?
    ) throws(TLSError) -> OpaquePointer {
        guard let passphrase else { return try key(bytes, of: path, advice: "no passphrase was given") }
        let bio = try memory(bytes)
        defer { BIO_free(bio) }
        ERR_clear_error()
        // Without a callback libcrypto takes its last argument for the passphrase.
        var secret = passphrase.utf8.map { CChar(bitPattern: $0) } + [0]
        if let key = PEM_read_bio_PrivateKey(bio, nil, nil, &secret) { return key }
        let reason = TLSContext.reason()
        ERR_clear_error()
        throw TLSError(description: "\(path) does not open with this passphrase (\(reason))")
    }

    /// The first private key of a file, in clear text. The caller frees the key.
    static func key(
        _ bytes: [UInt8], of path: String,
        advice: String = "a server cannot ask for the passphrase: keep the key without one"
    ) throws(TLSError) -> OpaquePointer {
        let bio = try memory(bytes)
        defer { BIO_free(bio) }
        ERR_clear_error()
        var isEncrypted = false
        let refuse:
            @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 =
                { _, _, _, asked in
                    asked?.assumingMemoryBound(to: Bool.self).pointee = true
                    return -1
                }
        if let key = PEM_read_bio_PrivateKey(bio, nil, refuse, &isEncrypted) { return key }
        let reason = TLSContext.reason()
        ERR_clear_error()
        if isEncrypted {
            throw TLSError(
                description: "\(path) is encrypted, and \(advice)")
        }
        guard String(decoding: bytes, as: UTF8.self).contains("PRIVATE KEY-----") else {
            throw TLSError(description: "\(path): the file holds no private key")
        }
        throw TLSError(description: "\(path): the private key cannot be read (\(reason))")
    }

    private static func memory(_ bytes: [UInt8]) throws(TLSError) -> OpaquePointer {
        let none = TLSError(description: "libcrypto gives no memory")
        guard let bio = BIO_new(BIO_s_mem()) else { throw none }
        guard BIO_write(bio, bytes, Int32(bytes.count)) == bytes.count || bytes.isEmpty else {
            BIO_free(bio)
            throw none
        }
        return bio
    }
}
