import FCMAPI
import Model

// The meaning of a ticket of the core and of a responder's note. Both have room for one number.

/// A request under way: its slot in the frontend's table, and the generation that shows whether the slot
/// still has the same request.
struct TicketID {
    let generation: UInt32
    let slot: Int

    /// `slot`: below 2³².
    init(generation: UInt32, slot: Int) {
        self.generation = generation
        self.slot = slot
    }

    init(number: UInt64) {
        generation = UInt32(number >> 32)
        slot = Int(number & 0xFFFF_FFFF)
    }

    var number: UInt64 { UInt64(generation) << 32 | UInt64(slot) }
}

/// The device behind an event stream: its project, and the number of its registration key.
struct StreamOwner {
    let project: ProjectNumber
    let key: UInt8
    /// Whether the client is an `EventSource` of a browser.
    let isEventSource: Bool

    init(_ listen: ListenRequest) {
        project = listen.registration.project
        key = listen.registration.key
        isEventSource = listen.isEventSource
    }

    init(number: UInt64) {
        project = ProjectNumber(UInt32(truncatingIfNeeded: number >> 8))
        key = UInt8(truncatingIfNeeded: number)
        isEventSource = number >> 40 & 1 == 1
    }

    var number: UInt64 {
        UInt64(isEventSource ? 1 : 0) << 40 | UInt64(project.rawValue) << 8 | UInt64(key)
    }
}
