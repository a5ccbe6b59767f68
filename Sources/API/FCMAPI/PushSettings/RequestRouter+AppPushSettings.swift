import Credentials
import Model
import PushMessages

extension RequestRouter {
    private struct APNsFields {
        var key: P256Key?
        var keyID: String?
        var teamID: String?
        var bundleID: String?
        var isSandbox: Bool?
        var host: String?
        var authority: [UInt8]?
        var areGiven = false
    }

    /// `nil` if the body has no field.
    func apnsKey() throws(APIError) -> APNsSettings.Key? {
        let fields = try apnsFields()
        guard fields.areGiven else { return nil }
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
        return key
    }

    private func apnsFields() throws(APIError) -> APNsFields {
        var fields = APNsFields()
        try json().forEachUniqueField { (name, value) throws(APIError) in
            fields.areGiven = true
            if Schema.equal(name, "key") {
                fields.key = try appleKey(value)
            } else if Schema.equal(name, "keyId") {
                fields.keyID = try appleID(value, "keyId")
            } else if Schema.equal(name, "teamId") {
                fields.teamID = try appleID(value, "teamId")
            } else if Schema.equal(name, "bundleId") {
                fields.bundleID = try TransportReader.bundleID(value.text(of: "bundleId"), "bundleId")
            } else if Schema.equal(name, "sandbox") {
                fields.isSandbox = try value.flag(of: "sandbox")
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

    private func appleKey(_ value: JSONValue) throws(APIError) -> P256Key {
        let pem = try value.text(of: "key")
        do throws(PushCryptoError) { return try P256Key(pem: pem) } catch {
            throw .invalid("key", "The key is refused: \(error).")
        }
    }

    private func appleID(_ value: JSONValue, _ field: String) throws(APIError) -> String {
        let id = try value.text(of: field)
        if let reason = APNsSigner.check(id: id) { throw .invalid(field, reason) }
        return id
    }

    private func apnsHost(_ value: JSONValue) throws(APIError) -> String {
        let host = try value.text(of: "host")
        guard !host.isEmpty else { return "" }
        guard host.utf8.count <= APNsSettings.hostBytesMax, let found = APNsHost(host) else {
            throw .invalid("host", "\"\(host.prefix(80))\" is no HOST or HOST:PORT.")
        }
        return found.text
    }

    func removedKey(of project: Project) throws(APIError) -> PushSettingsRequest {
        let isSandbox = target.matches(5, "sandbox")
        guard isSandbox || target.matches(5, "production") else { throw .notFoundHere }
        let bundleID = try TransportReader.bundleID(
            String(decoding: try segment(6), as: UTF8.self), "bundleId")
        return .removeKey(project, isSandbox: isSandbox, bundleID: bundleID)
    }

    func relayChange() throws(APIError) -> RelayChange {
        var change = RelayChange()
        try json().forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "serviceAccount") {
                change.account = try ServiceAccountReader.read(value.text(of: "serviceAccount"))
            } else if Schema.equal(name, "endpoint") {
                change.endpoint = try RelayCheck.endpoint(value.text(of: "endpoint"))
            } else if Schema.equal(name, "ca") {
                change.authority = try authority(value)
            } else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: "")
            }
        }
        return change
    }
}
