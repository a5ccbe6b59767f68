import Model

/// The two halves of a service account's key.
public struct ServiceAccountKey: Sendable {
    /// PKCS #8 in PEM.
    public let secret: String
    /// SubjectPublicKeyInfo in PEM.
    public let open: String

    public init(secret: String, open: String) {
        self.secret = secret
        self.open = open
    }
}

/// A new service account's key: what is in the file that Google's libraries read, and the part of it that the
/// server keeps.
public struct ServiceAccountFile: Sendable {
    public let project: Project
    public let keyID: String
    public let key: ServiceAccountKey
    public let tokenURI: String

    /// The bytes of a key's id.
    public static let keyIDCount = 20

    /// `keyID`: 20 random bytes.
    public init(project: Project, tokenURI: String, key: ServiceAccountKey, keyID: [UInt8]) {
        self.project = project
        self.tokenURI = tokenURI
        self.key = key
        self.keyID = Hex.text(keyID)
    }

    public var email: String { "tidecast@\(project.id).iam.gserviceaccount.com" }

    public var account: Directory.ServiceAccount {
        Directory.ServiceAccount(
            project: project.number, email: email, publicKey: key.open, tokenURI: tokenURI)
    }
}
