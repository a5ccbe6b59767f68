import Credentials
import Model
import PushMessages

/// A change of a project's settings for Apple's push service.
public struct APNsChange: Sendable {
    /// `nil` switches the service on again, with the keys that are there.
    public var key: APNsSettings.Key?
    /// `nil` leaves it as it is.
    public var triesOtherEnvironment: Bool?
}

/// A change of a project's settings for the relay to FCM. `nil` leaves a setting as it is.
public struct RelayChange: Sendable {
    public var account: RelaySettings.Account?
    /// Empty: Google's.
    public var endpoint: String?
    /// Certificate authorities, PEM; empty: the system's.
    public var authority: [UInt8]?
}

extension RequestRouter {
    private struct APNsFields {
        var key: P256Key?
        var keyID: String?
        var teamID: String?
        var bundleID: String?
        var isSandbox: Bool?
        var host: String?
        var authority: [UInt8]?
        var triesOtherEnvironment: Bool?
        /// Whether the fields name nothing of a key.
        var isWithoutKey: Bool {
            key == nil && keyID == nil && teamID == nil && bundleID == nil && isSandbox == nil && host == nil
                && authority == nil
        }
    }

    func apnsChange() throws(APIError) -> APNsChange {
        let fields = try apnsFields()
        if fields.isWithoutKey {
            return APNsChange(triesOtherEnvironment: fields.triesOtherEnvironment)
        }
        func given<Value>(_ value: Value?, _ name: String) throws(APIError) -> Value {
            guard let value else { throw .invalid(name, "\(name) is missing.") }
            return value
        }
        var key = APNsSettings.Key(
            isSandbox: fields.isSandbox ?? false, bundleID: try given(fields.bundleID, "bundleId"),
            keyID: try given(fields.keyID, "keyId"), teamID: try given(fields.teamID, "teamId"),
            privateBytes: try given(fields.key, "key").privateBytes, created: now)
        key.host = fields.host ?? ""
        key.authority = fields.authority.flatMap { $0.isEmpty ? nil : $0 }
        guard key.authority == nil || !key.host.isEmpty else {
            throw .invalid("ca", "Apple's own hosts have the system's authorities: name a host.")
        }
        return APNsChange(key: key, triesOtherEnvironment: fields.triesOtherEnvironment)
    }

    private func apnsFields() throws(APIError) -> APNsFields {
        var fields = APNsFields()
        try json().forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "key") {
                fields.key = try appleKey(value)
            } else if Schema.equal(name, "keyId") {
                fields.keyID = try appleID(value, "keyId")
            } else if Schema.equal(name, "teamId") {
                fields.teamID = try appleID(value, "teamId")
            } else if Schema.equal(name, "bundleId") {
                fields.bundleID = try bundleID(text(value, "bundleId"), "bundleId")
            } else if Schema.equal(name, "sandbox") {
                fields.isSandbox = try flag(value, "sandbox")
            } else if Schema.equal(name, "tryOtherEnvironment") {
                fields.triesOtherEnvironment = try flag(value, "tryOtherEnvironment")
            } else if Schema.equal(name, "host") {
                fields.host = try apnsHost(value)
            } else if Schema.equal(name, "ca") {
                fields.authority = try authority(value)
            } else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: "")
            }
        }
        return fields
    }

    private func text(_ value: JSONValue, _ field: String) throws(APIError) -> String {
        guard let text = value.text else { throw .type(field, "TYPE_STRING", value: value) }
        return text
    }

    private func flag(_ value: JSONValue, _ field: String) throws(APIError) -> Bool {
        guard let flag = value.bool else { throw .type(field, "TYPE_BOOL", value: value) }
        return flag
    }

    private func appleKey(_ value: JSONValue) throws(APIError) -> P256Key {
        let pem = try text(value, "key")
        do throws(PushCryptoError) { return try P256Key(pem: pem) } catch {
            throw .invalid("key", "The key is refused: \(error).")
        }
    }

    private func appleID(_ value: JSONValue, _ field: String) throws(APIError) -> String {
        let id = try text(value, field)
        if let reason = APNsSigner.check(id: id) { throw .invalid(field, reason) }
        return id
    }

    private func bundleID(_ text: String, _ field: String) throws(APIError) -> String {
        guard APNsAddress.isBundleID(text.utf8) else {
            throw .invalid(field, TransportReader.bundleIDRule)
        }
        return text
    }

    private func apnsHost(_ value: JSONValue) throws(APIError) -> String {
        let host = try text(value, "host")
        guard !host.isEmpty else { return "" }
        guard host.utf8.count <= APNsSettings.hostBytesMax, let found = APNsHost(host) else {
            throw .invalid("host", "\"\(host.prefix(80))\" is no HOST or HOST:PORT.")
        }
        return found.text
    }

    func removedKey(of project: Project) throws(APIError) -> PushRequest {
        let isSandbox = target.matches(5, "sandbox")
        guard isSandbox || target.matches(5, "production") else { throw .notFoundHere }
        let bundleID = try bundleID(String(decoding: try segment(6), as: UTF8.self), "bundleId")
        return .removeKey(project, isSandbox: isSandbox, bundleID: bundleID)
    }

    func relayChange() throws(APIError) -> RelayChange {
        var change = RelayChange()
        try json().forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "serviceAccount") {
                change.account = try ServiceAccountReader.read(text(value, "serviceAccount"))
            } else if Schema.equal(name, "endpoint") {
                change.endpoint = try RelayCheck.endpoint(text(value, "endpoint"))
            } else if Schema.equal(name, "ca") {
                change.authority = try authority(value)
            } else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: "")
            }
        }
        return change
    }
}
