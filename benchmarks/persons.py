"""Real and fictional persons, no surname twice: a label that takes knowledge, not words."""

from __future__ import annotations

REAL = (
    "Albert Einstein", "Marie Curie", "Isaac Newton", "Charles Darwin", "Ada Lovelace", "Alan Turing",
    "Abraham Lincoln", "Winston Churchill", "Nelson Mandela", "Mahatma Gandhi", "Margaret Thatcher",
    "John Kennedy", "Theodore Roosevelt", "Angela Merkel", "Barack Obama", "Napoleon Bonaparte",
    "Julius Caesar", "Wolfgang Mozart", "Johann Bach", "Frederic Chopin", "Miles Davis",
    "Ella Fitzgerald", "Elvis Presley", "John Lennon", "Bob Dylan", "David Bowie", "Freddie Mercury",
    "Michael Jackson", "Aretha Franklin", "Johnny Cash", "William Shakespeare", "Jane Austen",
    "Charles Dickens", "Mark Twain", "Virginia Woolf", "Ernest Hemingway", "Leo Tolstoy",
    "Agatha Christie", "Emily Dickinson", "George Orwell", "Oscar Wilde", "Mary Shelley",
    "Pablo Picasso", "Claude Monet", "Frida Kahlo", "Andy Warhol", "Alfred Hitchcock",
    "Charlie Chaplin", "Marilyn Monroe", "Audrey Hepburn", "Humphrey Bogart", "Greta Garbo",
    "Tom Hanks", "Meryl Streep", "Muhammad Ali", "Serena Williams", "Roger Federer", "Babe Ruth",
    "Usain Bolt", "Neil Armstrong", "Amelia Earhart", "Henry Ford", "Thomas Edison", "Nikola Tesla",
    "Florence Nightingale", "Rosa Parks", "Harriet Tubman", "Stephen Hawking",
)  # fmt: skip

FICTIONAL = (
    "Sherlock Holmes", "Harry Potter", "Hermione Granger", "Ron Weasley",
    "Albus Dumbledore", "Severus Snape", "Frodo Baggins", "Luke Skywalker",
    "Han Solo", "Leia Organa", "Obi-Wan Kenobi", "James Bond", "Indiana Jones", "Tony Stark",
    "Bruce Wayne", "Clark Kent", "Peter Parker", "Lois Lane", "Diana Prince", "Bruce Banner",
    "Steve Rogers", "Natasha Romanoff", "Atticus Finch", "Jay Gatsby",
    "Daisy Buchanan", "Holden Caulfield", "Elizabeth Bennet", "Fitzwilliam Darcy", "Emma Woodhouse",
    "Oliver Twist", "David Copperfield", "Ebenezer Scrooge", "Tom Sawyer", "Huckleberry Finn",
    "Anna Karenina", "Jane Eyre", "Edward Rochester", "Dorian Gray", "Victor Frankenstein",
    "Hercule Poirot", "Jane Marple", "Philip Marlowe", "Sam Spade", "Winston Smith", "Robinson Crusoe",
    "Lemuel Gulliver", "Phileas Fogg", "Mary Poppins", "Peter Pan", "Willy Wonka", "Katniss Everdeen",
    "Bella Swan", "Jon Snow", "Tyrion Lannister", "Walter White",
    "Tony Soprano", "Homer Simpson", "Fox Mulder", "Dana Scully", "Buffy Summers",
    "Vito Corleone", "Scarlett O'Hara", "Rhett Butler",
    "Forrest Gump", "Rocky Balboa", "Ellen Ripley", "Sarah Connor", "Lara Croft",
)  # fmt: skip
