"""What accompanies a message: the date, instructions, recalled memories, skills, the plan."""
