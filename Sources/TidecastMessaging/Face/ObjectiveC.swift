#if canImport(ObjectiveC)
    import Foundation

    /// `FIRMessaging` for apps in Objective-C. It has not been built by this project's tests, which run on
    /// Linux.
    @objc(FIRMessaging) public final class ObjectiveCMessaging: NSObject, Sendable {
        private let client: Messaging

        private init(_ client: Messaging) { self.client = client }

        @objc(configureWithServer:project:APIKey:error:)
        public static func configure(server: String, project: String, apiKey: String?) throws {
            try Messaging.configure(server: server, project: project, apiKey: apiKey)
        }

        @objc public static func messaging() -> ObjectiveCMessaging {
            ObjectiveCMessaging(Messaging.messaging())
        }

        @objc(FCMToken) public var fcmToken: String? { client.fcmToken }

        @objc(APNSToken) public var apnsToken: Data? {
            get { client.apnsToken }
            set { client.apnsToken = newValue }
        }

        @objc(autoInitEnabled) public var isAutoInitEnabled: Bool {
            @objc(isAutoInitEnabled) get { client.isAutoInitEnabled }
            set { client.isAutoInitEnabled = newValue }
        }

        /// `type`: 0 unknown, 1 sandbox, 2 production.
        @objc(setAPNSToken:type:) public func setAPNSToken(_ token: Data, type: Int) {
            client.setAPNSToken(token, type: MessagingAPNSTokenType(rawValue: type) ?? .unknown)
        }

        @objc(tokenWithCompletion:)
        public func token(completion: @escaping @MainActor @Sendable (String?, (any Error)?) -> Void) {
            client.token(completion: completion)
        }

        @objc(deleteTokenWithCompletion:)
        public func deleteToken(completion: @escaping @MainActor @Sendable ((any Error)?) -> Void) {
            client.deleteToken(completion: completion)
        }

        @objc(deleteDataWithCompletion:)
        public func deleteData(completion: @escaping @MainActor @Sendable ((any Error)?) -> Void) {
            client.deleteData(completion: completion)
        }

        @objc(subscribeToTopic:) public func subscribe(toTopic topic: String) {
            client.subscribe(toTopic: topic, completion: nil)
        }

        @objc(subscribeToTopic:completion:)
        public func subscribe(
            toTopic topic: String, completion: (@MainActor @Sendable ((any Error)?) -> Void)?
        ) { client.subscribe(toTopic: topic, completion: completion) }

        @objc(unsubscribeFromTopic:) public func unsubscribe(fromTopic topic: String) {
            client.unsubscribe(fromTopic: topic, completion: nil)
        }

        @objc(unsubscribeFromTopic:completion:)
        public func unsubscribe(
            fromTopic topic: String, completion: (@MainActor @Sendable ((any Error)?) -> Void)?
        ) { client.unsubscribe(fromTopic: topic, completion: completion) }

        /// Returns the status: 0 unknown, 1 new.
        @objc(appDidReceiveMessage:) public func appDidReceiveMessage(_ message: [AnyHashable: Any]) -> Int {
            client.appDidReceiveMessage(message).status.rawValue
        }
    }
#endif
