import Credentials
import HTTPMessages
import Model

// /admin/…, over the admin socket, and over the network for operators.

extension RequestRouter {
    /// The version of the admin requests. A command may be of another build than the server, so it sends its
    /// version as `tidecast-admin`; an operator's own client may leave it out.
    private static let adminVersion: UInt64 = 1

    private func checkVersion() throws(APIError) {
        guard let said = request.fields.string("tidecast-admin") else { return }
        guard let version = UInt64(said), version <= RequestRouter.adminVersion else {
            throw APIError(
                status: .failedPrecondition,
                message: "The command speaks version \(said.prefix(20)) of the admin socket, and this server"
                    + " speaks version \(RequestRouter.adminVersion): use the command line of the server's"
                    + " own build.",
                fcmCode: nil)
        }
    }

    func admin() throws(APIError) -> APIAction {
        try checkVersion()
        guard let row else {
            if target.matches(1, "projects"), target.count > 2 { _ = try adminProject() }
            throw .notFoundHere
        }
        return try answer(row.endpoint)
    }

    /// The project in the path.
    func adminProject() throws(APIError) -> Project {
        let name = String(decoding: try segment(2), as: UTF8.self)
        guard let project = api.directory.project(name) else { throw .projectUnknown }
        return project
    }

    func audit() throws(APIError) -> AdminRequest {
        guard let limit = Int(target.parameter("limit") ?? "100"), (1...AuditEntry.countMax).contains(limit)
        else { throw .invalid("limit", "The limit must be from 1 to \(AuditEntry.countMax).") }
        return .audit(limit)
    }

    func createdProject() throws(APIError) -> AdminRequest {
        let fields = try texts()
        guard let id = fields["id"], Project.isValid(id.utf8) else {
            throw .invalid("id", "A project's id has 1 to 63 of a-z, 0-9 and inner hyphens.")
        }
        return .createProject(id: id, tokenURI: fields["tokenUri"])
    }

    func setQuotas() throws(APIError) -> APIAction {
        let name = String(decoding: try segment(2), as: UTF8.self)
        if api.directory.project(name) == nil, api.settings.isDev, Project.isValid(name.utf8) {
            return .makeProject(name)
        }
        return .admin(.setQuota(try adminProject(), try numbers()))
    }

    func clusterChange(_ endpoint: Endpoint) throws(APIError) -> AdminRequest {
        let fields = try texts()
        let force = fields["force"] == "true"
        if endpoint == .refuseCertificate { return .refuse(try certificate(fields), force: force) }
        if endpoint == .acceptCertificate { return .accept(try certificate(fields)) }
        guard let node = fields["node"], (1...200).contains(node.utf8.count) else {
            throw .invalid("node", "The name of the node is missing.")
        }
        return endpoint == .drainNode ? .drain(node, force: force) : .uncordon(node)
    }

    private func certificate(_ fields: [String: String]) throws(APIError) -> CertificateFingerprint {
        let text = fields["certificate"] ?? ""
        guard let certificate = CertificateFingerprint(text) else {
            throw .invalid(
                "certificate",
                "A certificate's fingerprint is the SHA-256 of its DER form: 64 hexadecimal digits, with a"
                    + " colon between all bytes or without colons, as `openssl x509 -noout -fingerprint"
                    + " -sha256 -in FILE` prints them. This text has"
                    + " \(text.filter { $0 != ":" }.count) characters without its colons.")
        }
        return certificate
    }

    func texts() throws(APIError) -> [String: String] {
        var fields: [String: String] = [:]
        try json().forEachField { (name, value) throws(APIError) in
            fields[String(decoding: name, as: UTF8.self)] = value.text
        }
        return fields
    }

    private func numbers() throws(APIError) -> [String: UInt64] {
        var fields: [String: UInt64] = [:]
        try json().forEachField { (name, value) throws(APIError) in
            guard let number = value.integer, number >= 0 else {
                throw .type(String(decoding: name, as: UTF8.self), "TYPE_UINT64", value: value)
            }
            fields[String(decoding: name, as: UTF8.self)] = UInt64(number)
        }
        return fields
    }
}
