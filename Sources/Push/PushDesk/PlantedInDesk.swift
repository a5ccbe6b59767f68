#if DEBUG
    /// Bugs that are planted in the desk to show that a checker sees them. Only debug builds have them, and
    /// only a simulation switches them on.
    public struct PlantedInDesk: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// An answer to a message that left under former settings is believed.
        public static let believeFormer = PlantedInDesk(rawValue: 1)
        /// A project's revision rises with the project's next message, and not with its settings.
        public static let raiseLate = PlantedInDesk(rawValue: 2)
        /// The first message after a change of settings takes the former route.
        public static let keepRoutes = PlantedInDesk(rawValue: 4)
        /// Another account of a project gets the access tokens of the former one.
        public static let keepTokens = PlantedInDesk(rawValue: 8)
    }
#endif
