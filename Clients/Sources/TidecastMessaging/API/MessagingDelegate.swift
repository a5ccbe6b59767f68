import Foundation

/// Receives the device's token, on the main queue.
@MainActor public protocol MessagingDelegate: AnyObject, Sendable {
    /// The device has a token: once after each start, and when the token changes. `nil` when the token is
    /// deleted or the server has forgotten the device.
    func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String?)
}

extension MessagingDelegate {
    public func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String?) {}
}

extension Notification.Name {
    // The name is Firebase's.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// Posted on the main queue with the token as its object, when the device has another token.
    public static let MessagingRegistrationTokenRefreshed = Notification.Name(
        "com.firebase.messaging.notif.fcm-token-refreshed")
}

/// The environment of a token of Apple's push service.
public enum MessagingAPNSTokenType: Int, Sendable {
    /// Counts as `prod`.
    case unknown = 0
    case sandbox = 1
    case prod = 2
}

public enum MessagingMessageStatus: Int, Sendable {
    case unknown = 0
    case new = 1
}

public struct MessagingMessageInfo: Equatable, Sendable {
    public let status: MessagingMessageStatus
}

/// The delegate, and the token that no delegate has received yet.
final class DelegateBox: @unchecked Sendable {  // Safe, because `lock` guards both variables.
    private let lock = NSLock()
    private weak var delegate: (any MessagingDelegate)?
    private var untold: String??

    var current: (any MessagingDelegate)? { lock.withLock { delegate } }

    /// Returns the token that the delegate must receive now.
    func set(_ new: (any MessagingDelegate)?) -> String?? {
        lock.withLock {
            delegate = new
            defer { if new != nil { untold = nil } }
            return new == nil ? nil : untold
        }
    }

    /// Returns whether there is a delegate to notify.
    func note(_ token: String?) -> (any MessagingDelegate)? {
        lock.withLock {
            if delegate == nil { untold = .some(token) }
            return delegate
        }
    }
}
