import COpenSSL
import Credentials
import HTTPMessages
import Model
import PushMessages

/// An operator's request about a project's push services.
public enum PushSettingsRequest: Sendable {
    case show(Project)
    case setWeb(Project, WebPushChange)
    case setAPNs(Project, APNsSettings.Key?)
    case setRelay(Project, RelayChange)
    /// Makes the project a push service for user agents; `origin`: `nil` leaves it as it is.
    case serve(Project, origin: String?)
    case endService(Project)
    /// `nil`: all services that the project has settings for.
    case switchOff(Project, Transport.Kind?)
    /// Removes the key for one app in one of Apple's environments.
    case removeKey(Project, isSandbox: Bool, bundleID: String)
}

extension Target {
    /// Whether a page of any origin may read the errors of this path.
    var isForPages: Bool {
        matches(3, "registrations") || matches(3, "installations") || matches(3, "webPushKey")
    }
}

// /admin/projects/{project}/push, and below /v1/projects/{project} webPushKey and messages/{message}.

extension RequestRouter {
    /// How push services have answered to a message.
    func message(_ name: String) throws(APIError) -> APIAction {
        guard case .known(let project) = try authorized(name) else { return .makeProject(name) }
        guard let id = MessageID(try segment(4)) else {
            throw .invalid("name", "A message id is 32 hexadecimal digits.")
        }
        return .operation(
            .pushes(project: project.number, of: id),
            ResponseForm(kind: .messagePushes(id), project: project))
    }

    func servedOrigin() throws(APIError) -> String? {
        var origin: String?
        try json().forEachUniqueField { (name, value) throws(APIError) in
            guard Schema.equal(name, "origin") else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: "")
            }
            let text = try value.text(of: "origin")
            if let reason = PushServiceProject.check(origin: text) { throw .invalid("origin", reason) }
            origin = text
        }
        return origin
    }

    func webPushChange() throws(APIError) -> WebPushChange {
        var change = WebPushChange()
        try json().forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "subject") {
                change.subject = try subject(value)
            } else if Schema.equal(name, "allowHosts") {
                change.hosts = try hosts(value)
            } else if Schema.equal(name, "ca") {
                change.authority = try authority(value)
            } else if Schema.equal(name, "newKey") {
                change.wantsNewKey = try value.flag(of: "newKey")
            } else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: "")
            }
        }
        return change
    }

    private func subject(_ value: JSONValue) throws(APIError) -> String {
        let text = try value.text(of: "subject")
        if let reason = VAPID.check(subject: text) { throw .invalid("subject", reason) }
        return text
    }

    private func hosts(_ value: JSONValue) throws(APIError) -> [String] {
        guard value.kind == .array else { throw .type("allowHosts", "LIST", value: value) }
        var hosts: [String] = []
        try value.forEachElement { (_, value) throws(APIError) in
            let host = try value.text(of: "allowHosts")
            guard host.utf8.count <= WebPushSettings.hostBytesMax else {
                throw .invalid(
                    "allowHosts", "A host has at most \(WebPushSettings.hostBytesMax) bytes.")
            }
            if let reason = EndpointPolicy.check(listed: host) { throw .invalid("allowHosts", reason) }
            if !hosts.contains(host) { hosts.append(host) }
        }
        guard hosts.count <= WebPushSettings.hostsMax else {
            throw .invalid("allowHosts", "There are more than \(WebPushSettings.hostsMax) hosts.")
        }
        return hosts
    }

    func authority(_ value: JSONValue) throws(APIError) -> [UInt8] {
        let text = try value.text(of: "ca")
        guard text.utf8.count <= WebPushSettings.authorityBytesMax else {
            throw .invalid(
                "ca", "The certificates have more than \(WebPushSettings.authorityBytesMax >> 10) KiB.")
        }
        guard text.isEmpty || RequestRouter.hasCertificates(text) else {
            throw .invalid("ca", "The text is no list of certificates in PEM.")
        }
        return Array(text.utf8)
    }

    /// Whether the text has certificates, and none of them is damaged.
    private static func hasCertificates(_ pem: String) -> Bool {
        defer { ERR_clear_error() }
        var count = 0
        _ = Crypto.read(pem) { bio in
            while let found = PEM_read_bio_X509(bio, nil, nil, nil) {
                X509_free(found)
                count += 1
            }
            return nil
        }
        // At the end of the text libcrypto finds no further beginning.
        return count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE
    }

    // MARK: For pages

    /// The public key with which a page subscribes, for everybody who has any credential of the project.
    func webPushKey(_ name: String) throws(APIError) -> APIAction {
        let stranger = APIError(
            status: .unauthenticated,
            message: "To read the key for Web Push, send an API key of the project in x-goog-api-key.")
        let project = try known(name, installation: stranger)
        guard mayReadKey(of: project) else {
            if case .project = principal { throw .permissionDenied }
            throw stranger
        }
        guard let push = api.directory.webPush[project.number], push.isOn else {
            throw APIError(
                status: .notFound, message: "The project has no key for Web Push, or Web Push is off.")
        }
        var response = APIAnswer.object([("publicKey", .text(push.newest.text))])
        response.fields += HTTPResponse.forPages
        return .respond(response)
    }

    private func mayReadKey(of project: Project) -> Bool {
        switch principal {
        case .owner: return true
        case .operator: return false
        case .project(let number): return number == project.number
        case nil:
            if api.settings.isDev || hasAPIKey(project) { return true }
            return installation?.device.project == project.number
        }
    }
}
