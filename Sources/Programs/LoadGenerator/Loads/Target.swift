/// The server that a load is aimed at.
public struct Target: Sendable {
    public enum Kind: String, Sendable, CaseIterable {
        case tidecast
        /// nginx with the nchan module; streams over HTTP/2.
        case nchan
        /// The same, with streams over HTTP/1.1.
        case nchanHTTP1 = "nchan-h1"
        case redis
        /// Any server that answers a POST to the given path.
        case plain
    }

    public var kind: Kind
    public var address: ServerAddress
    /// The address for publishing, if it differs from `address`.
    public var publishAddress: ServerAddress
    public var project: String
    /// The key with which devices register; `token` if it is nil.
    public var deviceKey: String?
    public var token: String
    public var process: ServerProcess

    public init(
        kind: Kind, address: ServerAddress, publishAddress: ServerAddress? = nil, project: String = "bench",
        deviceKey: String? = nil, token: String = "owner", process: ServerProcess = ServerProcess(pids: [])
    ) {
        self.kind = kind
        self.address = address
        self.publishAddress = publishAddress ?? address
        self.project = project
        self.deviceKey = deviceKey
        self.token = token
        self.process = process
    }

    // MARK: Tidecast's requests

    private var authorization: (String, String) { ("authorization", "Bearer \(token)") }
    private static let json = ("content-type", "application/json")

    func head(post path: String) -> RequestHead {
        RequestHead("POST", path, authority: address.authority, fields: [authorization, Target.json])
    }

    public var sendPath: String { "/v1/projects/\(project)/messages:send" }

    var batchAddHead: RequestHead {
        RequestHead(
            "POST", "/iid/v1:batchAdd", authority: address.authority,
            fields: [authorization, Target.json, ("access_token_auth", "true")])
    }

    var registerHead: RequestHead {
        let proof = deviceKey.map { ("x-goog-api-key", $0) } ?? authorization
        return RequestHead(
            "POST", "/v1/projects/\(project)/registrations", authority: address.authority,
            fields: [proof, Target.json])
    }

    func listenPath(_ device: String) -> String { "/v1/projects/\(project)/registrations/\(device):listen" }

    /// The body of a send of exactly `count` bytes, as an Admin SDK makes it, or as near as the fields allow.
    public static func sendBody(topic: String, count: Int) -> [UInt8] {
        let front =
            #"{"message": {"topic": "\#(topic)", "notification": {"title": "Match update", "body": "#
        let back =
            #"}, "data": {"match": "4711", "minute": "87"}, "android": {"priority": "high", "ttl": "3600s", "#
            + #""notification": {"click_action": "OPEN_MATCH"}}}, "validate_only": false}"#
        let pad = max(0, count - front.utf8.count - back.utf8.count - 2)
        let text = String(String(repeating: "Home side scores again. ", count: pad / 24 + 1).prefix(pad))
        return Array((front + "\"\(text)\"" + back).utf8)
    }

    /// The data of a numbered message; the scanner finds the number.
    static func numbered(_ number: Int, padding: Int) -> String {
        let digits = String(number)
        let zeros = String(repeating: "0", count: max(0, 10 - digits.count))
        return #"{"n":"\#(zeros)\#(digits)","pad":"\#(String(repeating: "x", count: padding))"}"#
    }
}
