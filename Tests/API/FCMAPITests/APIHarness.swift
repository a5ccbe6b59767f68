import Credentials
import Foundation
import HTTPMessages
import Model
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

/// An API with one project, as a loop of a node has it.
final class APIHarness {
    let api: API
    let keys = RegistrationKeys([RegistrationKey(number: 1, material: Array(1...32))])
    let project = Project(id: "shop", number: ProjectNumber(5))
    let now = WallTime(milliseconds: 1_800_000_000_000)
    var moment = MonotonicTime.zero

    convenience init(isDev: Bool = false) {
        var settings = APISettings()
        settings.isDev = isDev
        self.init(settings)
    }

    init(_ given: APISettings) {
        var settings = given
        settings.signingKey = Array(repeating: 7, count: 32)
        settings.tokenURIs = ["https://oauth2.googleapis.com/token"]
        api = API(settings: settings, keys: keys)
        var directory = Directory()
        directory.add(project)
        directory.add(Project(id: "other", number: ProjectNumber(6)))
        directory.keys[KeyHash.of("tcb_secret".utf8)] = .init(.bearer, project.number)
        directory.keys[KeyHash.of("tck_app".utf8)] = .init(.device, project.number)
        api.directory = directory
    }

    func token(project: UInt32 = 5) -> String {
        let device = Registration(
            project: ProjectNumber(project), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77,
            key: 1)
        return String(decoding: keys.token(device, secret: 99), as: UTF8.self)
    }

    func route(
        _ method: HTTPMethod = .post, _ path: String, _ body: String = "", bearer: String? = "tcb_secret",
        headers: [(String, String)] = []
    ) -> APIAction {
        route(method, path, bytes: Array(body.utf8), bearer: bearer, headers: headers)
    }

    func route(
        _ method: HTTPMethod = .post, _ path: String, bytes: [UInt8], bearer: String? = "tcb_secret",
        headers: [(String, String)] = []
    ) -> APIAction {
        var fields = HTTPFields()
        if let bearer { fields.append(name: "authorization".utf8, value: "Bearer \(bearer)".utf8) }
        for (name, value) in headers { fields.append(name: name.utf8, value: value.utf8) }
        let request = HTTPRequest(
            method: method, target: Array(path.utf8), fields: fields, body: bytes)
        return route(request)
    }

    func route(_ request: HTTPRequest, isAdmin: Bool = false, now: WallTime? = nil) -> APIAction {
        routed(request, isAdmin: isAdmin, now: now).action
    }

    func routed(_ request: HTTPRequest, isAdmin: Bool = false, now: WallTime? = nil) -> Routed {
        api.route(
            request, isAdmin: isAdmin, now: now ?? self.now, at: moment, id: MessageID(time: 1, random: 2))
    }

    func send(_ message: String, extra: String = "") -> APIAction {
        route(.post, "/v1/projects/shop/messages:send", "{\"message\":\(message)\(extra)}")
    }
}

extension APIAction {
    /// The answer. For a refused send or batch: the answer that follows once its quota is taken.
    var response: HTTPResponse? {
        switch self {
        case .respond(let response): response
        case .operation(.refusedSend, let form):
            if case .refusedSend(let answer) = form.kind { answer.response } else { nil }
        case .operation(.refusedChanges, let form):
            if case .refusedBatch(let answer) = form.kind { answer.response } else { nil }
        default: nil
        }
    }
    var sent: Send? {
        if case .operation(.send(let send), _) = self { send } else { nil }
    }
    var change: SubscriptionChange? {
        if case .operation(.changeSubscriptions(let change), _) = self { change } else { nil }
    }
    var form: ResponseForm? { if case .operation(_, let form) = self { form } else { nil } }
}

func object(_ bytes: [UInt8]) -> [String: Any] {
    (try? JSONSerialization.jsonObject(with: Data(bytes))) as? [String: Any] ?? [:]
}

/// The parts of a v1 error: HTTP status, status word, FcmError code, first violated field.
func error(_ response: HTTPResponse?) -> (http: Int, status: String, fcm: String?, field: String?) {
    let error = object(response?.body ?? [])["error"] as? [String: Any] ?? [:]
    let details = error["details"] as? [[String: Any]] ?? []
    let fcm = details.first { ($0["@type"] as? String)?.hasSuffix("FcmError") ?? false }
    let bad = details.first { ($0["@type"] as? String)?.hasSuffix("BadRequest") ?? false }
    let field = (bad?["fieldViolations"] as? [[String: Any]])?.first?["field"] as? String
    return (response?.status ?? 0, error["status"] as? String ?? "", fcm?["errorCode"] as? String, field)
}
