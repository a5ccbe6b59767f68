import Foundation

/// The client of one project on a Tidecast server: it registers this device, keeps its topics subscribed, and
/// receives messages. The names are those of Firebase's `Messaging`.
///
///     try Messaging.configure(server: "https://push.example.com", project: "demo", apiKey: "A…")
///     Messaging.messaging().subscribe(toTopic: "weather") { error in
///         print("Subscribed to weather topic")
///     }
///
/// What the app wants of a topic is stored before a call returns, outlives the process, and is repeated until
/// the server confirms it. The last call for a topic counts.
public final class Messaging: Sendable {
    let engine: Engine
    private let options: MessagingOptions
    private let box: DelegateBox

    /// A separate client, beside that of `messaging()`. Throws `invalidRequest` for a server without TLS,
    /// `operationInProgress` if another process uses the same folder, and `storage` if the state cannot be
    /// read.
    public convenience init(_ options: MessagingOptions) throws {
        try options.checkTransport()
        try self.init(
            options, storage: FileStorage(folder: options.folder ?? options.defaultFolder),
            transport: SessionTransport())
    }

    init(_ options: MessagingOptions, storage: any Storage, transport: any Transport) throws {
        self.options = options
        let box = DelegateBox()
        self.box = box
        // The engine exists before this object, so its calls find the object here.
        let found = Weak()
        engine = try Engine(
            wire: Wire(server: options.server, project: options.project, apiKey: options.apiKey),
            storage: storage, transport: transport, log: options.log,
            tokenChanged: { token in
                DispatchQueue.main.async { found.object?.tell(token) }
            })
        found.set(self)
        engine.start()
    }

    deinit { engine.close() }

    // MARK: The app's client

    /// Names the server, once, before `messaging()`. Throws what `init(_:)` throws.
    public static func configure(server: String, project: String, apiKey: String? = nil) throws {
        try configure(MessagingOptions(server: server, project: project, apiKey: apiKey))
    }

    /// Throws `operationInProgress` if the app has configured its client already.
    public static func configure(_ options: MessagingOptions) throws {
        try AppClient.shared.set { try Messaging(options) }
    }

    /// The app's client. The process ends with a message if the app has not called `configure`.
    public static func messaging() -> Messaging {
        guard let messaging = AppClient.shared.messaging else {
            fatalError("Call Messaging.configure(server:project:apiKey:) before Messaging.messaging().")
        }
        return messaging
    }

    // MARK: Token

    public var delegate: (any MessagingDelegate)? {
        get { box.current }
        set {
            guard let untold = box.set(newValue) else { return }
            DispatchQueue.main.async { self.tell(untold) }
        }
    }

    private func tell(_ token: String?) {
        MainActor.assumeIsolated {
            box.note(token)?.messaging(self, didReceiveRegistrationToken: token)
            NotificationCenter.default.post(name: .MessagingRegistrationTokenRefreshed, object: token)
        }
    }

    /// The device's token, if it has one now. A backend sends to it.
    public var fcmToken: String? { engine.cachedToken }

    /// Gives the device's token on the main queue, and registers the device if it has none. Errors: `network`
    /// if the server does not answer (the client goes on trying), `authentication` for a wrong key.
    public func token(completion: @escaping @MainActor @Sendable (String?, (any Error)?) -> Void) {
        engine.token { result in
            onMain {
                switch result {
                case .success(let token): completion(token, nil)
                case .failure(let error): completion(nil, error)
                }
            }
        }
    }

    public func token() async throws -> String {
        try await settled { answer in self.engine.token { answer($0.mapError { $0 }) } }
    }

    /// Ends the registration: here immediately, and at the server as soon as that can be reached. After an
    /// error the client goes on asking the server, also in later processes. Topics that the app wants stay
    /// noted, and are subscribed again when the app asks for a token, calls `subscribe`, listens, or starts
    /// again with auto-init.
    public func deleteToken(completion: @escaping @MainActor @Sendable ((any Error)?) -> Void) {
        engine.deleteToken { error in onMain { completion(error) } }
    }

    public func deleteToken() async throws {
        try await settled { answer in self.engine.deleteToken { answer(result(of: $0)) } }
    }

    /// As `deleteToken`, and forgets all topics.
    public func deleteData(completion: @escaping @MainActor @Sendable ((any Error)?) -> Void) {
        engine.deleteData { error in onMain { completion(error) } }
    }

    public func deleteData() async throws {
        try await settled { answer in self.engine.deleteData { answer(result(of: $0)) } }
    }

    /// Whether the client registers the device without being asked; stored.
    public var isAutoInitEnabled: Bool {
        get { engine.isAutoInitEnabled }
        set { engine.isAutoInitEnabled = newValue }
    }

    // MARK: Topics

    /// The topics that the app wants, confirmed or not.
    public var topics: [String] { engine.topics }

    /// Notes that the app wants the topic. The client sends it as soon as it can reach the server.
    public func subscribe(toTopic topic: String) { subscribe(toTopic: topic, completion: nil) }

    /// `completion` comes on the main queue when the server has confirmed the subscription, or with an error:
    /// `invalidTopicName`; `superseded` if a later call wants the opposite; `tooManyTopics`, `noAccess` or
    /// `invalidRequest` if the server refuses for good, which also takes the wish back. `storage` says that
    /// the server has confirmed, and that the device could not store that. Without a network, `completion`
    /// waits.
    public func subscribe(
        toTopic topic: String, completion: (@MainActor @Sendable ((any Error)?) -> Void)?
    ) { wish(topic, isWanted: true, completion) }

    /// As `subscribe(toTopic:completion:)`. If the task is cancelled, only the waiting ends.
    public func subscribe(toTopic topic: String) async throws { try await wish(topic, isWanted: true) }

    public func unsubscribe(fromTopic topic: String) { unsubscribe(fromTopic: topic, completion: nil) }

    /// As `subscribe(toTopic:completion:)`, for the end of the subscription.
    public func unsubscribe(
        fromTopic topic: String, completion: (@MainActor @Sendable ((any Error)?) -> Void)?
    ) { wish(topic, isWanted: false, completion) }

    public func unsubscribe(fromTopic topic: String) async throws { try await wish(topic, isWanted: false) }

    private func wish(
        _ topic: String, isWanted: Bool, _ completion: (@MainActor @Sendable ((any Error)?) -> Void)?
    ) {
        guard let name = TopicText.name(of: topic) else {
            if let completion { onMain { completion(MessagingError.topicName(topic)) } }
            return
        }
        guard let completion else { return engine.wish(name, isWanted: isWanted, nil) }
        engine.wish(name, isWanted: isWanted) { error in onMain { completion(error) } }
    }

    private func wish(_ topic: String, isWanted: Bool) async throws {
        guard let name = TopicText.name(of: topic) else { throw MessagingError.topicName(topic) }
        try await settled { answer in
            self.engine.wish(name, isWanted: isWanted) { answer(result(of: $0)) }
        }
    }

    // MARK: Messages

    /// What the server's stream says, while a loop asks for it. An event counts as handled when the loop asks
    /// for the next; only then the client acknowledges the event. Events that the app has not handled come
    /// again, also in the next process. There is one loop at a time: a later one ends the earlier.
    public var events: MessagingEvents { MessagingEvents(client: self) }

    /// The messages among `events`.
    public var messages: MessagingMessages { MessagingMessages(client: self) }

    /// Notifies the client of a message that a push service brought. The push only shows that something has
    /// come, so the client checks immediately whether the server can be reached.
    @discardableResult
    public func appDidReceiveMessage(_ message: [AnyHashable: Any]) -> MessagingMessageInfo {
        engine.wake()
        return MessagingMessageInfo(status: message.isEmpty ? .unknown : .new)
    }

    /// The app came to the front, or the network came back: the client immediately tries what waits for its
    /// next try. On Apple's systems the client notices by itself.
    public func wake() { engine.wake() }

    // MARK: Apple's push service

    /// The token that Apple's push service gave the app. The client registers it at the server.
    public var apnsToken: Data? {
        get { engine.address.map { Data(hexadecimal: $0.token) } }
        set {
            if let newValue { setAPNSToken(newValue, type: .unknown) } else { engine.address = nil }
        }
    }

    public func setAPNSToken(_ apnsToken: Data, type: MessagingAPNSTokenType) {
        guard let bundleID = options.bundleID ?? Bundle.main.bundleIdentifier, !apnsToken.isEmpty else {
            return options.log("The token of Apple's push service is not told: there is no bundle id.")
        }
        engine.address = PushAddress(
            token: apnsToken.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined(),
            isSandbox: type == .sandbox, bundleID: bundleID, keepsMessages: options.keepsMessages)
    }
}
