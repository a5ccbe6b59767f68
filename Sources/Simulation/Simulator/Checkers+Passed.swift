// Messages that a device's push service does not get, and that wait for the device's stream.

extension Checkers {
    /// Whether a service got no time for the message, and a later message rang for the device: the mark of
    /// what was pushed has passed the message, which waits for the device's stream.
    func isRung(_ device: Int, behind send: History.Send) -> Bool {
        rules.isRung(device) && !rules.kinds(device).allSatisfy { send.waitsAt.contains($0) }
            && history.pushes.contains { $0.device == device && $0.message > send.message }
    }

    /// Whether another address of the device is used while a service's word about the first one is doubted,
    /// and the message has ended there: it waits for its own service and for the device's stream.
    func isHeld(_ send: History.Send, for device: Int) -> Bool {
        !rules.kinds(device).allSatisfy { send.waitsAt.contains($0) } && rules.isHeld(send.message, device)
    }
}
