import Credentials
import Model

/// Reads the transport in the body of a registration: `{"ios": {…}}`, `{"web": {…}}` or `{"fcm": {…}}`.
/// Tidecast's own beside it: `"keepUntilAcknowledged": true`, from devices that acknowledge their messages.
///
/// Source: fcmregistrations.googleapis.com v1. Fields without a meaning for the server are passed over,
/// because newer SDKs add some.
struct TransportReader {
    /// `nil` if the project has no Web Push.
    let project: WebPushProject?
    /// Firebase's SDK for the web sends the request. It names no key if the page has given it none: then it
    /// has subscribed under Google's own key, with which only Google can sign.
    var isFromWebSDK = false

    /// `nil` if the body names no push service.
    func read(_ body: JSONValue) throws(APIError) -> Transport? {
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        var found: Transport?
        var keepsMessages = false
        try body.forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "keepUntilAcknowledged"), value.kind != .null {
                keepsMessages = try value.flag(of: "keepUntilAcknowledged")
            }
            if Schema.equal(name, "ios") { found = try apns(value) ?? found }
            if Schema.equal(name, "web") { found = try web(value) ?? found }
            if Schema.equal(name, "fcm") { found = try fcm(value) ?? found }
        }
        found?.keepsMessages = keepsMessages
        return found
    }

    private func apns(_ block: JSONValue) throws(APIError) -> Transport? {
        if block.kind == .null { return nil }
        guard block.kind == .object else { throw .type("ios", "OBJECT", value: block) }
        var token: [UInt8] = []
        var bundle = ""
        var isSandbox = false
        try block.forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "apns_token") || Schema.equal(name, "apnsToken") {
                token = try hex(value.text(of: "ios.apns_token"))
            } else if Schema.equal(name, "bundle_id") || Schema.equal(name, "bundleId") {
                bundle = try TransportReader.bundleID(value.text(of: "ios.bundle_id"))
            } else if Schema.equal(name, "apns_environment") || Schema.equal(name, "apnsEnvironment") {
                isSandbox = try isForSandbox(value.text(of: "ios.apns_environment"))
            }
        }
        return try apns(token, bundle: bundle, isSandbox: isSandbox)
    }

    /// `p_HEX` or `s_HEX`, for Apple's production and sandbox, as the SDK writes the address into a form, and
    /// the app's bundle id.
    func apns(tuple: String, app: String) throws(APIError) -> Transport {
        guard tuple.hasPrefix("p_") || tuple.hasPrefix("s_") else {
            throw .invalid("apns_token", "The token must begin with p_ or s_.")
        }
        return try apns(
            hex(String(tuple.dropFirst(2))), bundle: TransportReader.bundleID(app),
            isSandbox: tuple.hasPrefix("s_"))
    }

    private func apns(_ token: [UInt8], bundle: String, isSandbox: Bool) throws(APIError) -> Transport {
        guard !token.isEmpty else {
            throw .invalid("ios.apns_token", "The token of Apple's push service is missing.")
        }
        guard !bundle.isEmpty else { throw .invalid("ios.bundle_id", "The app's bundle id is missing.") }
        let address = APNsAddress(isSandbox: isSandbox, bundleID: bundle, token: token)
        return Transport(kind: .apns, address: address.packed)
    }

    private func isForSandbox(_ text: String) throws(APIError) -> Bool {
        switch text {
        case "SANDBOX": true
        case "PROD", "": false
        default: throw .invalid("ios.apns_environment", "The environment must be PROD or SANDBOX.")
        }
    }

    private func hex(_ text: String) throws(APIError) -> [UInt8] {
        guard text.utf8.count <= 2 * APNsAddress.tokenBytesMax, let bytes = Hex.bytes(text), !bytes.isEmpty
        else {
            throw .invalid("ios.apns_token", "The token must be hexadecimal, at most 512 digits.")
        }
        return bytes
    }

    static func bundleID(_ text: String, _ field: String = "ios.bundle_id") throws(APIError) -> String {
        guard APNsAddress.isBundleID(text.utf8) else {
            let most = APNsAddress.bundleIDBytesMax
            throw .invalid(
                field, "A bundle id has letters, digits, dots and hyphens, at most \(most) of them.")
        }
        return text
    }

    /// `{"fcm": {"token"}}`: the app's token of the operator's own Firebase project.
    private func fcm(_ block: JSONValue) throws(APIError) -> Transport? {
        if block.kind == .null { return nil }
        guard block.kind == .object else { throw .type("fcm", "OBJECT", value: block) }
        var found: String?
        try block.forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "token") { found = try value.text(of: "fcm.token") }
        }
        guard let token = found else { throw .invalid("fcm.token", "The token of FCM is missing.") }
        guard FCMAddress.isToken(token.utf8) else {
            throw .invalid(
                "fcm.token",
                "A token of FCM has 1 to \(FCMAddress.tokenBytesMax) visible ASCII characters.")
        }
        return Transport(kind: .fcm, address: FCMAddress(token: token).packed)
    }
}
