/// What a push service's answer means for a message and for the device's address.
public enum PushOutcome: Hashable, Sendable {
    /// The service has the message.
    case accepted
    /// The address is of no use any more.
    case gone
    /// The service never takes this message; the address may be good. The text names the reason.
    case refusedContent(String)
    /// The service does not accept the project's key. The text names the reason.
    case credentials(String)
    /// Too much at once: for this device, or for all of the service's devices.
    case throttled(retryAfterSeconds: Int?)
    /// The service failed, or could not be reached.
    case transient(retryAfterSeconds: Int?)
}
