import Bytes
import Model
import PushMessages

/// A project's settings for the relay: the operator's own Firebase project, and the service account with
/// which the server sends there.
public struct RelaySettings: Hashable, Sendable {
    /// What the server keeps of a service account's file.
    public struct Account: Hashable, Sendable {
        /// The id of the Firebase project.
        public var projectID: String
        public var clientEmail: String
        public var keyID: String
        /// An RSA key, PEM.
        public var privateKey: String
        /// The source of access tokens; empty if the file does not say.
        public var tokenURI: String

        public init(
            projectID: String, clientEmail: String, keyID: String, privateKey: String, tokenURI: String
        ) {
            self.projectID = projectID
            self.clientEmail = clientEmail
            self.keyID = keyID
            self.privateKey = privateKey
            self.tokenURI = tokenURI
        }
    }

    public static let textBytesMax = 512
    public static let privateKeyBytesMax = 16 << 10
    public static let urlBytesMax = 1024
    public static let authorityBytesMax = 64 << 10
    public static let googleEndpoint = "https://fcm.googleapis.com"
    public static let googleTokenURI = "https://oauth2.googleapis.com/token"

    public var isOn = true
    public var account: Account
    /// In place of Google's, without a slash at its end; empty for Google's.
    public var endpoint = ""
    /// Certificate authorities of the endpoint and of the token's host, PEM; `nil` for the system's.
    public var authority: [UInt8]?
    public var created: WallTime

    public init(account: Account, created: WallTime) {
        self.account = account
        self.created = created
    }

    /// The place of `messages:send`: scheme, host, port and path before `/v1`.
    public var base: String { endpoint.isEmpty ? RelaySettings.googleEndpoint : endpoint }

    public var tokenURI: String {
        if !account.tokenURI.isEmpty { return account.tokenURI }
        return endpoint.isEmpty ? RelaySettings.googleTokenURI : endpoint + "/token"
    }

    private static let googleHosts = ["oauth2.googleapis.com", "accounts.google.com"]

    /// Refuses settings that hold only apart: an account of another service goes with that service's
    /// endpoint.
    public func check() throws(ChangeRefusal) {
        let host: PushEndpoint
        do throws(PushEndpointError) { host = try PushEndpoint.parse(operators: tokenURI) } catch {
            throw ChangeRefusal(
                .wrong(field: "serviceAccount"),
                "The account's token_uri is refused: \(error.description)")
        }
        guard !endpoint.isEmpty || (RelaySettings.googleHosts.contains(host.host) && host.port == 443) else {
            throw ChangeRefusal(
                .wrong(field: "serviceAccount"),
                "The account's token_uri is not Google's: name the service that goes with it by endpoint.")
        }
    }
}

extension RelaySettings {
    private static let version: UInt8 = 1

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 4096 + (authority?.count ?? 0))
        out.u8(RelaySettings.version)
        out.u8(isOn ? 1 : 0)
        for text in [account.projectID, account.clientEmail, account.keyID] { out.string(text.utf8) }
        out.string(account.privateKey.utf8)
        out.string(account.tokenURI.utf8)
        out.string(endpoint.utf8)
        out.string(authority ?? [])
        out.u64(UInt64(max(0, created.milliseconds)))
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        isOn = try reader.isOn("a project's settings for the relay to FCM", RelaySettings.version)
        func text(_ max: Int) throws(DecodeError) -> String {
            String(decoding: try reader.stringSlice(max: max), as: UTF8.self)
        }
        account = Account(
            projectID: try text(RelaySettings.textBytesMax),
            clientEmail: try text(RelaySettings.textBytesMax),
            keyID: try text(RelaySettings.textBytesMax),
            privateKey: try text(RelaySettings.privateKeyBytesMax),
            tokenURI: try text(RelaySettings.urlBytesMax))
        endpoint = try text(RelaySettings.urlBytesMax)
        let authority = try reader.string(max: RelaySettings.authorityBytesMax)
        self.authority = authority.isEmpty ? nil : authority
        created = try reader.time("when the relay to FCM was set")
        try reader.expectEnd()
    }
}
