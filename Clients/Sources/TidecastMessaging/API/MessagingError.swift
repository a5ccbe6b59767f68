import Foundation

/// An error of the client. Domain and codes below 4,000 are those of Firebase's `Messaging`.
public struct MessagingError: Error, Equatable, Sendable {
    public enum Code: Int, Sendable {
        case unknown = 0
        /// The server does not accept the app's key or the device's credential.
        case authentication = 1
        case noAccess = 2
        case timeout = 3
        /// The server does not answer, or cannot do it now.
        case network = 4
        case operationInProgress = 5
        case invalidRequest = 7
        case invalidTopicName = 8
        /// The app has withdrawn the call: it deleted the token or all data.
        case cancelled = 3005
        /// A later call wants the opposite for the same topic. Tidecast's own.
        case superseded = 4001
        /// The device has as many topics as it may have. Tidecast's own.
        case tooManyTopics = 4002
        /// The device's own memory cannot be read or written. Tidecast's own.
        case storage = 4003
    }

    public static let domain = "com.google.fcm"

    public var code: Code
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension MessagingError: CustomNSError, LocalizedError, CustomStringConvertible {
    public static var errorDomain: String { domain }
    public var errorCode: Int { code.rawValue }
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
    public var errorDescription: String? { message }
    public var description: String { "\(message) (\(MessagingError.domain) \(code.rawValue))" }
}
