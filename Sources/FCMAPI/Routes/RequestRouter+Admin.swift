import Credentials
import HTTPMessages
import Model
import Routing

// /admin/…, over the admin socket, and over the network for operators.

extension RequestRouter {
    /// The version of the admin requests. A command may be of another build than the server, so it sends its
    /// version as `tidecast-admin`; a missing field stands for 1.
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
        let count = target.count
        if target.matches(1, "cluster") {
            if count == 2, request.method == .get { return .admin(.cluster) }
            if count == 3, request.method == .post, let change = try clusterChange() { return .admin(change) }
        }
        if count == 2, target.matches(1, "audit"), request.method == .get {
            guard let limit = Int(target.parameter("limit") ?? "100"),
                (1...AuditEntry.countMax).contains(limit)
            else { throw .invalid("limit", "The limit must be from 1 to \(AuditEntry.countMax).") }
            return .admin(.audit(limit))
        }
        if target.matches(1, "keys") { return .admin(.credentials(try credentials())) }
        if target.matches(1, "serverKeys") { return .admin(.serverKeys(try serverKeys())) }
        guard target.matches(1, "projects") else { throw .notFoundHere }
        if count == 2 {
            switch request.method {
            case .get: return .admin(.projects)
            case .post:
                let fields = try texts()
                guard let id = fields["id"], Project.isValid(id.utf8) else {
                    throw .invalid("id", "A project's id has 1 to 63 of a-z, 0-9 and inner hyphens.")
                }
                return .admin(.createProject(id: id, tokenURI: fields["tokenUri"]))
            default: throw .notFoundHere
            }
        }
        let name = String(decoding: try segment(2), as: UTF8.self)
        if count == 4, target.matches(3, "quotas"), request.method == .patch,
            api.directory.project(name) == nil,
            api.settings.isDev, Project.isValid(name.utf8)
        {
            return .makeProject(name)
        }
        guard let project = api.directory.project(name) else { throw .projectUnknown }
        if count == 3, request.method == .delete { return .admin(.deleteProject(project)) }
        if target.matches(3, "push") { return .admin(.push(try push(of: project))) }
        guard count == 4 else { throw .notFoundHere }
        if target.matches(3, "keys"), request.method == .post {
            return .admin(.credentials(try newCredential(in: project)))
        }
        if target.matches(3, "quotas") {
            if request.method == .get { return .node(.quotas(project)) }
            if request.method == .patch { return .admin(.setQuota(project, try numbers())) }
        }
        if target.matches(3, "subscribe"), request.method == .post {
            return try batch(.subscribe, in: project)
        }
        if target.matches(3, "unsubscribe"), request.method == .post {
            return try batch(.unsubscribe, in: project)
        }
        throw .notFoundHere
    }

    private func clusterChange() throws(APIError) -> AdminRequest? {
        let fields = try texts()
        let force = fields["force"] == "true"
        if target.matches(2, "refuse") { return .refuse(try certificate(fields), force: force) }
        if target.matches(2, "accept") { return .accept(try certificate(fields)) }
        guard let node = fields["node"], (1...200).contains(node.utf8.count) else {
            throw .invalid("node", "The name of the node is missing.")
        }
        if target.matches(2, "drain") { return .drain(node, force: force) }
        return target.matches(2, "uncordon") ? .uncordon(node) : nil
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
