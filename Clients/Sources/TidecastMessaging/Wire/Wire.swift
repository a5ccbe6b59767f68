import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The requests of one server and one project, and the meaning of their answers. docs/api.md has the paths.
struct Wire: Sendable {
    var server: URL
    var project: String
    /// A key of the project for apps; `nil` for a development server.
    var apiKey: String?

    /// The server carries no call out past its own deadline of 25 s, so a call without an answer by then was
    /// carried out or never will be.
    static let timeout: TimeInterval = 60

    // MARK: Requests

    func request(for call: Call) -> URLRequest {
        switch call {
        case .register:
            var request = self.request("POST", "registrations")
            if let apiKey { request.setValue(apiKey, forHTTPHeaderField: "x-goog-api-key") }
            return body([:], in: request)
        case .unregister(let device): return request("DELETE", "registrations/\(device.fid)", by: device)
        case .change(let device, let topic, let isSubscribe):
            let verb = isSubscribe ? "subscribe" : "unsubscribe"
            let path = "registrations/\(device.fid)/topicSubscriptions/\(TopicText.inPath(topic)):\(verb)"
            return request("POST", path, by: device)
        case .list(let device, let page):
            let path = "registrations/\(device.fid)/topicSubscriptions"
            return request("GET", path, query: page.isEmpty ? nil : "pageToken=\(page)", by: device)
        case .acknowledge(let device, let event):
            let request = request("POST", "registrations/\(device.fid):acknowledge", by: device)
            return body(["eventId": event], in: request)
        case .authToken(let device):
            var request = request("POST", "installations/\(device.fid)/authTokens:generate")
            request.setValue("FIS_v2 \(device.refreshToken)", forHTTPHeaderField: "Authorization")
            return request
        case .tell(let device, let address, let authToken):
            var request = request("PATCH", "registrations/\(device.fid)")
            request.setValue("FIS \(authToken)", forHTTPHeaderField: "x-goog-firebase-installations-auth")
            let fields = [
                "apns_token": address.token, "apns_environment": address.isSandbox ? "SANDBOX" : "PROD",
                "bundle_id": address.bundleID,
            ]
            return body(
                ["ios": fields, "keepUntilAcknowledged": address.keepsMessages], in: request)
        }
    }

    func stream(of device: Registration, resume: String?) -> URLRequest {
        var request = request("GET", "registrations/\(device.fid):listen", by: device)
        request.setValue("text/event-stream, application/json", forHTTPHeaderField: "Accept")
        if let resume { request.setValue(resume, forHTTPHeaderField: "Last-Event-ID") }
        return request
    }

    private func request(
        _ method: String, _ path: String, query: String? = nil, by device: Registration? = nil
    ) -> URLRequest {
        // The parts have no character that a path must escape, so the text goes in unchanged.
        var parts = URLComponents(url: server, resolvingAgainstBaseURL: false) ?? URLComponents()
        var base = parts.percentEncodedPath
        while base.hasSuffix("/") { base.removeLast() }
        parts.percentEncodedPath = "\(base)/v1/projects/\(project)/\(path)"
        parts.percentEncodedQuery = query
        var request = URLRequest(
            url: parts.url ?? server, cachePolicy: .reloadIgnoringLocalCacheData,
            timeoutInterval: Wire.timeout)
        request.httpMethod = method
        if let device {
            request.setValue("Bearer \(device.credential)", forHTTPHeaderField: "Authorization")
        }
        return request
    }

    private func body(_ object: [String: any Encodable & Sendable], in request: URLRequest) -> URLRequest {
        var request = request
        request.httpBody = try? JSONSerialization.data(withJSONObject: object, options: [.sortedKeys])
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        return request
    }

    // MARK: Answers

    static func answer(to call: Call, status: Int, retryAfter: String?, body: Data) -> Answer {
        guard (200..<300).contains(status) else {
            return .refused(refusal(status: status, retryAfter: retryAfter, body: body))
        }
        let object = (try? JSONSerialization.jsonObject(with: body)) as? [String: Any]
        switch call {
        case .register:
            return registration(object).map { .done(.registration($0)) } ?? .refused(.unexpected)
        case .list:
            guard let list = object?["topicSubscriptions"] as? [[String: Any]] else {
                return .refused(.unexpected)
            }
            let names = list.compactMap { $0["topicName"] as? String }
            return .done(.topics(names, nextPage: object?["nextPageToken"] as? String ?? ""))
        case .authToken:
            return (object?["token"] as? String).map { .done(.authToken($0)) } ?? .refused(.unexpected)
        case .unregister, .change, .acknowledge, .tell:
            // Another machine's page with status 200 is no confirmation.
            return object == nil || object?["error"] != nil ? .refused(.unexpected) : .done(.nothing)
        }
    }

    private static func registration(_ object: [String: Any]?) -> Registration? {
        guard let token = object?["token"] as? String, let credential = object?["credential"] as? String,
            let colon = token.firstIndex(of: ":"), colon > token.startIndex, !credential.isEmpty,
            [token, credential].allSatisfy({ $0.utf8.allSatisfy(isPlain) })
        else { return nil }
        return Registration(fid: String(token[..<colon]), token: token, credential: credential)
    }

    /// Ids are parts of paths and header fields.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-_:.".utf8.contains(byte)
        }
    }

    static func refusal(status: Int, retryAfter: String?, body: Data) -> Refusal {
        let object = (try? JSONSerialization.jsonObject(with: body)) as? [String: Any]
        let error = object?["error"] as? [String: Any]
        let details = error?["details"] as? [[String: Any]] ?? []
        let violations = details.compactMap { $0["fieldViolations"] as? [[String: Any]] }.first
        let seconds = retryAfter.flatMap { Int($0) }.flatMap { $0 >= 0 ? min($0, 86_400) : nil }
        return Refusal(
            status: status, code: details.compactMap { $0["errorCode"] as? String }.first ?? "",
            field: violations?.first?["field"] as? String ?? "",
            message: error?["message"] as? String ?? "", retryAfter: seconds.map { .seconds($0) },
            isFromServer: error != nil)
    }

    // MARK: Events

    /// What an event of the stream says; `nil` for an event of a later server that this client does not know.
    static func signal(_ event: EventParser.Event) -> StreamSignal? {
        switch event.type {
        case "message": message(Data(event.data.utf8)).map { .event(.message($0), id: event.id) }
        case "deleted_messages": .event(.deletedMessages, id: event.id)
        case "replaced": .replaced
        case "unregistered": .unregistered
        case "reconnect":
            .reconnect(after: event.retryMilliseconds.map { .milliseconds(min($0, 3_600_000)) })
        default: nil
        }
    }

    /// `nil` if the text is not a message of the server.
    static func message(_ json: Data) -> RemoteMessage? {
        guard let object = (try? JSONSerialization.jsonObject(with: json)) as? [String: Any],
            let id = object["messageId"] as? String, let from = object["from"] as? String
        else { return nil }
        let notification = object["notification"] as? [String: Any]
        return RemoteMessage(
            messageID: id, from: from,
            sentTime: (object["sentTime"] as? NSNumber).map {
                Date(timeIntervalSince1970: $0.doubleValue / 1000)
            },
            collapseKey: object["collapseKey"] as? String,
            data: (object["data"] as? [String: Any] ?? [:]).compactMapValues { $0 as? String },
            notification: notification.map {
                .init(
                    title: $0["title"] as? String, body: $0["body"] as? String,
                    image: $0["image"] as? String)
            }, json: json)
    }
}
